"""The socket of the owner: who may speak, what is answered, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from tpf_streams.errors import LogFailedError
from tpf_streams.runtime.control import LINE_BYTES_MAX, SOCKET_NAME, ControlError, ControlServer, ask, short_path
from tpf_streams.runtime.refusals import OperatorError


class Echo:
    """Answers with what it was asked, or as told by the command."""

    def __init__(self) -> None:
        self.hanging = asyncio.Event()

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        match command:
            case "refuse":
                raise OperatorError("not this")
            case "fail":
                raise LogFailedError("full")
            case "break":
                raise ZeroDivisionError("secret words")
            case "hang":
                self.hanging.set()
                await asyncio.sleep(60)
        return {"command": command, **arguments}


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
async def server(tmp_path, echo):
    server = ControlServer(tmp_path, echo)
    await server.open()
    yield server
    await server.close()


async def asked(folder, command: str, **arguments: Any) -> dict[str, Any] | None:
    return await asyncio.to_thread(ask, folder, command, arguments)


async def test_a_question_is_answered(tmp_path, server):
    assert await asked(tmp_path, "status", limit=3) == {"command": "status", "limit": 3}


async def test_only_its_owner_may_speak(tmp_path, server):
    assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o600


async def test_the_mask_for_new_files_is_as_before(tmp_path, server):
    mask = os.umask(0o022)
    os.umask(mask)
    assert mask != 0o177


@pytest.mark.parametrize(
    ("command", "words"), [("refuse", "not this"), ("fail", "full"), ("break", "^ZeroDivisionError$")]
)
async def test_a_refusal_comes_back_as_one(tmp_path, server, command, words):
    with pytest.raises(ControlError, match=words):
        await asked(tmp_path, command)
    assert await asked(tmp_path, "still there") == {"command": "still there"}


@pytest.mark.parametrize(
    "line",
    [b"no json", b"[]", b"{}", b'{"v": 2, "command": "status"}', b'{"v": 1, "command": "status", "arguments": 3}'],
)
async def test_what_cannot_be_read_is_refused(tmp_path, server, line):
    reader, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET_NAME))
    writer.write(line + b"\n")
    reply = orjson.loads(await reader.readline())
    assert (reply["v"], reply["ok"], reply["code"]) == (1, False, "CONTROL")
    writer.close()
    await writer.wait_closed()


async def test_a_line_without_an_end_is_not_kept(tmp_path, server):
    _, writer = await asyncio.open_unix_connection(str(tmp_path / SOCKET_NAME))

    async def write_on_and_on() -> None:
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    with pytest.raises(ConnectionError):
        await asyncio.wait_for(write_on_and_on(), 10)
    writer.close()


async def test_several_ask_at_once(tmp_path, server):
    answers = await asyncio.gather(*(asked(tmp_path, "status", number=number) for number in range(20)))
    assert [answer["number"] for answer in answers if answer] == list(range(20))


async def test_closing_does_not_wait_for_an_answer(tmp_path, server, echo):
    waiting = asyncio.ensure_future(asked(tmp_path, "hang"))
    await asyncio.wait_for(echo.hanging.wait(), 10)
    await asyncio.wait_for(server.close(), 5)
    with pytest.raises(ControlError, match="went away"):
        await waiting
    assert not (tmp_path / SOCKET_NAME).exists()
    assert await asked(tmp_path, "status") is None


async def test_a_question_that_is_too_large_is_told_so(tmp_path, server):
    """It was said that the owner went away."""
    with pytest.raises(ControlError, match="too large"):
        await asked(tmp_path, "complete", payload="x" * LINE_BYTES_MAX)
    assert await asked(tmp_path, "status") == {"command": "status"}


async def test_nobody_is_no_owner(tmp_path):
    assert await asked(tmp_path, "status") is None
    assert await asked(tmp_path / "not there", "status") is None


async def test_a_socket_of_the_dead_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / SOCKET_NAME))
    assert await asked(tmp_path, "status") is None
    server = ControlServer(tmp_path, Echo())
    await server.open()
    assert await asked(tmp_path, "status") == {"command": "status"}
    await server.close()


async def test_a_path_that_no_address_holds_is_reached(tmp_path):
    folder = tmp_path / ("long-" * 30)
    folder.mkdir()
    server = ControlServer(folder, Echo())
    await server.open()
    assert await asked(folder, "status") == {"command": "status"}
    assert (folder / SOCKET_NAME).is_socket()
    await server.close()
    assert list(folder.iterdir()) == []


def test_the_way_around_a_long_path_is_taken_away(tmp_path):
    folder = tmp_path / ("long-" * 30)
    folder.mkdir()
    with short_path(folder / "file") as short:
        assert len(short) < 100
        with open(short, "w") as file:
            file.write("here")
    assert (folder / "file").read_text() == "here"
    assert not os.path.lexists(os.path.dirname(os.path.dirname(short)))
