"""The pages as they are sent: their policy, their parts, and that nothing in them could be more than what it is."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tpf_streams.api.pages.serving import ASSETS, HEADERS, KINDS, PAGES, POLICY, pages

FOLDER = files("tpf_streams.api.pages")
SCRIPTS = sorted(it.name for it in FOLDER.iterdir() if it.name.endswith(".js"))
SENT = sorted(it.name for it in FOLDER.iterdir() if it.name[it.name.rfind(".") :] in KINDS)
PATHS = ["/inbox", "/executions/some-id", *[ASSETS + name for name in SENT]]


@pytest.fixture
async def client():
    application = web.Application()
    application.add_routes(pages(lambda: {"app": "Restaurant Approval", "tenant": "default"}))
    async with TestClient(TestServer(application)) as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
async def test_every_part_is_sent_under_the_policy(client, path):
    response = await client.get(path)
    assert response.status == 200 and await response.text()
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.content_type == KINDS.get(path[path.rfind(".") :], "text/html")


def test_the_policy_lets_nothing_in_that_came_with_a_payload():
    policy = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert "unsafe" not in POLICY and "http" not in POLICY and "data:" not in POLICY


async def test_a_part_that_has_not_changed_is_not_sent_again(client):
    first = await client.get("/inbox")
    again = await client.get("/inbox", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, await again.text()) == (304, "")
    assert again.headers["Content-Security-Policy"] == POLICY


@pytest.mark.parametrize("path", ["/pages/serving.py", "/pages/inbox.html", "/pages/..%2f__init__.py", "/pages/"])
async def test_nothing_else_of_the_folder_is_sent(client, path):
    assert (await client.get(path)).status == 404


async def test_what_the_pipeline_is_called_is_text():
    hostile = {"app": "<script>alert(1)</script>$tenant", "tenant": "\"><img src=x onerror='alert(1)'>"}
    application = web.Application()
    application.add_routes(pages(lambda: hostile))
    async with TestClient(TestServer(application)) as client:
        for path in ("/inbox", "/executions/x"):
            found = Tags(await (await client.get(path)).text())
            assert [dict(attrs)["src"] for tag, attrs in found.tags if tag == "script"] == [
                dict(found.scripts())["src"]
            ]
            assert not [attrs for tag, attrs in found.tags if tag == "img"]
            tenant = next(dict(attrs)["content"] for tag, attrs in found.tags if ("name", "tenant") in attrs)
            assert tenant == "\"><img src=x onerror='alert(1)'>"
            assert "<script>alert(1)</script>$tenant" in found.text


async def test_a_page_waits_for_the_engine():
    application = web.Application()
    application.add_routes(pages(lambda: None))
    async with TestClient(TestServer(application)) as client:
        answer = await client.get("/inbox")
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")


class Tags(HTMLParser):
    """What a browser would find."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data

    def scripts(self) -> list[tuple[str, str | None]]:
        return next(attrs for tag, attrs in self.tags if tag == "script")


@pytest.mark.parametrize("path", list(PAGES))
async def test_a_page_has_no_script_or_style_of_its_own(client, path):
    found = Tags(await (await client.get(path.replace("{id}", "x"))).text())
    for tag, attrs in found.tags:
        assert tag != "style" and not [name for name, _ in attrs if name.startswith("on") or name == "style"], (
            tag,
            attrs,
        )
        assert tag != "script" or dict(attrs)["src"]
        for name in ("src", "href"):
            target = dict(attrs).get(name)
            assert target is None or target.startswith("#") or target in (*PAGES, *[ASSETS + it for it in SENT]), target


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_no_markup_and_fetches_its_neighbours_alone(name):
    text = (FOLDER / name).read_text("utf-8")
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|eval\(|new Function|https?://|localStorage|import\("
    assert re.findall(forbidden, text) == []
    for imported in re.findall(r'from "(.*?)"', text):
        assert imported.removeprefix("./") in SCRIPTS
    assert len(text.splitlines()) <= 200


async def test_the_worker_serves_them_beside_the_api(in_memory):
    async with in_memory.client.get("/inbox") as response:
        assert response.status == 200 and "Restaurant Approval" in await response.text()
    assert not [path for path in (await in_memory.get("/openapi.json"))["paths"] if path in PAGES]
