"""The Unix socket by which the owner of a data directory answers operators: one JSON object a line, both ways.

    -> {"v": 1, "command": "pending", "arguments": {"limit": 50}}
    <- {"v": 1, "ok": true, "result": {...}}
    <- {"v": 1, "ok": false, "code": "OPERATOR", "message": "..."}

The socket is `control.sock` in the data directory, for its owner only (mode 0600). Who has the directory's lock owns
the socket too: one that it finds there is left from a dead process, and is replaced.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import orjson

from tpf_streams.errors import TpfError
from tpf_streams.runtime.views import Answer

log = logging.getLogger(__name__)

SOCKET_NAME = "control.sock"
VERSION = 1
PATH_BYTES_MAX = 100
"""A socket's address holds 104 bytes (macOS) or 108 (Linux), with its NUL."""
LINE_BYTES_MAX = 8 * 1024 * 1024
BACKLOG = 16
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 60.0


class ControlError(TpfError):
    """The owner of a data directory refused, or did not answer."""

    code = "CONTROL"

    def __init__(self, message: str, code: str = code) -> None:
        super().__init__(message)
        self.code = code


class Answers(Protocol):
    """Who answers: `runtime.operator.Operator`."""

    async def answer(self, command: str, arguments: Mapping[str, Any]) -> Answer: ...


class ControlServer:
    """Answers on the socket until closed. Only the owner of the directory's lock may open one."""

    def __init__(self, data_dir: Path, answers: Answers) -> None:
        self._file = data_dir / SOCKET_NAME
        self._answers = answers
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises OSError."""
        self._file.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with short_path(self._file) as address:
                # The umask, because between bind and chmod anybody could connect.
                before = os.umask(0o177)
                try:
                    listening.bind(address)
                finally:
                    os.umask(before)
            listening.listen(BACKLOG)
            listening.setblocking(False)
            self._server = await asyncio.start_unix_server(self._talk, sock=listening, limit=LINE_BYTES_MAX)
        except BaseException:
            listening.close()
            raise

    async def close(self) -> None:
        """Stop answering and take the socket away. Idempotent."""
        server, self._server = self._server, None
        if server is None:
            return
        self._file.unlink(missing_ok=True)
        server.close()
        for talk in list(self._talks):
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        assert talk is not None
        self._talks.add(talk)
        try:
            while line := await reader.readline():
                writer.write(orjson.dumps(await self._reply(line)) + b"\n")
                await writer.drain()
        except (ValueError, ConnectionError):
            # A line without end, or a client that has gone: nobody is left to be told.
            pass
        except asyncio.CancelledError:
            if self._server is not None:
                raise
        finally:
            self._talks.discard(talk)
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _reply(self, line: bytes) -> Answer:
        try:
            request = orjson.loads(line)
            if request["v"] != VERSION:
                return _refusal("CONTROL", f"version {VERSION} is spoken here: use the program that runs the owner")
            result = await self._answers.answer(str(request["command"]), request.get("arguments") or {})
        except TpfError as error:
            return _refusal(error.code, str(error))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return _refusal("CONTROL", f"the request cannot be read: {type(error).__name__}")
        except Exception as error:
            log.warning("an operator's request failed: %s", type(error).__name__)
            return _refusal("INTERNAL_ERROR", type(error).__name__)
        return {"v": VERSION, "ok": True, "result": result}


def _refusal(code: str, message: str) -> Answer:
    return {"v": VERSION, "ok": False, "code": code, "message": message}


def ask(data_dir: Path, command: str, arguments: Mapping[str, Any]) -> Answer | None:
    """Ask the owner of a data directory; None when there is none. Blocks. Raises ControlError."""
    connection = _connect(data_dir / SOCKET_NAME)
    if connection is None:
        return None
    request = orjson.dumps({"v": VERSION, "command": command, "arguments": dict(arguments)}) + b"\n"
    with connection:
        if len(request) > LINE_BYTES_MAX:
            raise ControlError(f"too large: {len(request)} bytes, and the process that owns {data_dir} takes 8 MiB")
        try:
            connection.sendall(request)
            with connection.makefile("rb") as lines:
                reply = orjson.loads(lines.readline())
        except TimeoutError:
            raise ControlError(f"the process that owns {data_dir} does not answer") from None
        except (OSError, ValueError):
            raise ControlError(f"the process that owns {data_dir} went away before it answered") from None
    if not reply.get("ok"):
        raise ControlError(str(reply.get("message")), str(reply.get("code", ControlError.code)))
    result: Answer = reply["result"]
    return result


def _connect(file: Path) -> socket.socket | None:
    """A connection to the owner; None where no socket is, or nobody behind it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        with short_path(file) as address:
            connection.connect(address)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise ControlError(f"{file}: {error.strerror or error}") from error
    connection.settimeout(ANSWER_TIMEOUT_S)
    return connection


@contextmanager
def short_path(file: Path) -> Iterator[str]:
    """An address of `file` that a socket can have: its path, or one through a link to its directory.

    The link may go once the socket is bound or connected: the file itself stays in its own directory.
    """
    path = str(file.absolute())
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    folder = tempfile.mkdtemp(prefix="tpf-", dir="/tmp")
    link = os.path.join(folder, "d")
    try:
        os.symlink(file.absolute().parent, link)
        yield os.path.join(link, file.name)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(link)
        os.rmdir(folder)
