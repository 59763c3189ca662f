"""What a worker tells the others of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpf_streams.dsl.load import load_pipeline
from tpf_streams.errors import DefinitionError
from tpf_streams.runtime.advertised import KEY, advertised, url_of, worker_id

APPROVAL = Path(__file__).parents[3] / "topologies/restaurant_approval/pipeline.yaml"
SERVED = "http://127.0.0.1:8080"


def settings_with(text: str | None):
    return load_pipeline(APPROVAL, settings_overrides={} if text is None else {KEY: text}, environ={}).settings


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, SERVED),
        ("http://worker-1:8080", "http://worker-1:8080"),
        ("https://worker-1/", "https://worker-1"),
        ("http://[fd00::1]:8080", "http://[fd00::1]:8080"),
    ],
)
def test_the_setting_stands_above_the_servers_own_address(text, told):
    assert advertised(settings_with(text), "w", SERVED).url == told


def test_who_serves_nothing_has_no_address():
    assert advertised(settings_with("http://worker-1:8080"), "w", None).url is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("worker-1:8080", "it is no address of a web server"),
        ("ftp://worker-1", "it is no address of a web server"),
        ("http://", "it is no address of a web server"),
        ("http://worker-1:port", "it cannot be read"),
        ("http://name:hidden@worker-1", "a name and a password have no place in it"),
        ("http://worker-1/pipeline", "the paths are those of the API"),
        ("http://worker-1?x=1", "the paths are those of the API"),
    ],
)
def test_what_is_no_address_of_a_server_is_refused(text, why):
    with pytest.raises(DefinitionError) as caught:
        advertised(settings_with(text), "w", SERVED)
    (problem,) = caught.value.problems
    assert (problem.key, problem.message.startswith(why)) == (KEY, True), problem.message
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0", "http://host:1"),
        ("::", "http://host:1"),
        ("", "http://host:1"),
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("10.0.0.7", "http://10.0.0.7:1"),
        ("::1", "http://[::1]:1"),
        ("localhost", "http://localhost:1"),
    ],
)
def test_a_server_is_reached_where_it_listens(bind, url):
    assert url_of(bind, 1, "host") == url


def test_no_two_starts_are_the_same_worker():
    assert worker_id() != worker_id()
