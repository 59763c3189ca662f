"""Serving a scrape: formats, the server of a run, and what is told when its port is taken."""

from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tpf_streams.observability.exposition import MetricsPortError, MetricsServer, scrape


@pytest.fixture
def registry():
    found = CollectorRegistry()
    Counter("tpf_await_interaction_created_total", "Interactions created.", registry=found).inc(3)
    return found


def test_the_format_is_the_one_that_is_asked_for(registry):
    body, kind = scrape(registry, "")
    assert kind.startswith("text/plain") and b"tpf_await_interaction_created_total 3.0" in body
    body, kind = scrape(registry, "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    (family,) = text_string_to_metric_families(body.decode())
    assert family.samples[0].value == 3


def test_a_server_answers_and_gives_its_port_back(registry):
    server = MetricsServer(registry, "127.0.0.1", 0)
    assert server.url.startswith("http://127.0.0.1:") and server.url.endswith("/metrics")
    with urllib.request.urlopen(server.url) as answer:
        assert b"tpf_await_interaction_created_total 3.0" in answer.read()
    server.close()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(server.url)


def test_a_port_that_is_taken_is_told(registry):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MetricsPortError, match=f"127.0.0.1:{port}: Address already in use"):
            MetricsServer(registry, "127.0.0.1", port)
