"""What this worker tells the others of itself: who it is, and where its HTTP API answers."""

from __future__ import annotations

import os
import socket
import uuid
from ipaddress import ip_address
from urllib.parse import urlsplit

from tpf_streams.dsl.settings import Settings
from tpf_streams.engine.owners import Advertised
from tpf_streams.errors import DefinitionError, Problem

KEY = "http.advertised-url"


def advertised(settings: Settings, worker_id: str, served_at: str | None) -> Advertised:
    """`served_at`: the URL of this process's web server, None without one. Raises DefinitionError for a setting that is
    no URL of a server."""
    return Advertised(worker_id, None if served_at is None else _given(settings) or served_at)


def worker_id() -> str:
    """Of this process: new with every start, since a number of a process comes back. For people the host is in it."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def url_of(bind: str, port: int, host: str) -> str:
    """How a server that listens on address `bind` is reached; by the name `host` where it listens on every one."""
    try:
        address = ip_address(bind)
    except ValueError:
        return f"http://{bind or host}:{port}"
    if address.is_unspecified:
        return f"http://{host}:{port}"
    return f"http://[{bind}]:{port}" if address.version == 6 else f"http://{bind}:{port}"


def _given(settings: Settings) -> str | None:
    text = settings.text(KEY)
    if not text:
        return None
    problem = _problem(text)
    if problem is None:
        return text.rstrip("/")
    found = settings.given(KEY)
    file, line = ("settings", 0) if found is None else (found.file, found.line)
    # The value is not repeated: a password may stand in it.
    raise DefinitionError([Problem(file, line, KEY, f"{problem}; http://host:port is wanted")])


def _problem(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError as error:
        return f"it cannot be read: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it is no address of a web server"
    if parts.username is not None or parts.password is not None:
        return "a name and a password have no place in it"
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        return "the paths are those of the API"
    return None
