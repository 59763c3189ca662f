"""Reading what a client sends: bounded in size, depth and time, under the one JSON policy (contract 0.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from tpf_streams.api.limits import ApiLimits
from tpf_streams.api.problems import ProblemError
from tpf_streams.core.json_policy import parse_json
from tpf_streams.core.step import Json
from tpf_streams.errors import JsonPolicyError

BODY = web.RequestKey("tpf-body", bytes)
"""Where in a request its body is kept: whoever passes the request on needs it again."""
KEY_HEADER = "Idempotency-Key"
M = TypeVar("M", bound=BaseModel)


async def body_of(request: web.Request, limits: ApiLimits) -> bytes:
    """Raises ProblemError: 408, 413."""
    if BODY in request:
        return request[BODY]
    if (request.content_length or 0) > limits.body_bytes:
        raise _too_large(limits)
    found = bytearray()
    try:
        async with asyncio.timeout(limits.read_s):
            async for piece in request.content.iter_any():
                found += piece
                if len(found) > limits.body_bytes:
                    raise _too_large(limits)
    except TimeoutError:
        raise ProblemError(408, "timeout", f"the body did not come within {limits.read_s:g} s") from None
    request[BODY] = bytes(found)
    return request[BODY]


def _too_large(limits: ApiLimits) -> ProblemError:
    return ProblemError(413, "payload_too_large", f"a body has at most {limits.body_bytes} bytes (http.max-body-bytes)")


async def json_of(request: web.Request, limits: ApiLimits) -> Json:
    """Raises ProblemError: 400, 408, 413, 415."""
    kind = request.content_type
    if kind != "application/json" and not kind.endswith("+json"):
        raise ProblemError(415, "unsupported_media_type", "the content type application/json is wanted")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise ProblemError(415, "unsupported_media_type", "a body is taken as it is, without an encoding")
    data = await body_of(request, limits)
    try:
        return parse_json(data, limits.body_bytes, limits.depth)
    except JsonPolicyError as error:
        raise ProblemError(400, "invalid_envelope", f"the body is no JSON that is taken here: {error}") from None


async def model_of(request: web.Request, limits: ApiLimits, model: type[M], *, optional: bool = False) -> M:
    """The body as `model`. `optional`: none at all is as good as an empty one. Raises ProblemError."""
    if optional and not request.can_read_body:
        return model()
    found = await json_of(request, limits)
    if not isinstance(found, dict):
        raise ProblemError(400, "invalid_envelope", "the body is a JSON object")
    try:
        return model.model_validate(found)
    except ValidationError as error:
        # Without its message: it repeats what was sent.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part in _names(model))
        raise ProblemError(400, "invalid_envelope", f"{where or 'the body'}: {first['type']}") from None


def _names(model: type[BaseModel]) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def whole_number(query: Mapping[str, str], name: str, default: int, maximum: int) -> int:
    """Of the query; 0 and nothing: the default. Raises ProblemError."""
    text = query.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 16:
        raise ProblemError(400, "invalid_argument", f"{name}: a whole number is wanted, at most {maximum}")
    number = int(text)
    if number < 0:
        raise ProblemError(400, "invalid_argument", f"{name} must be >= 0")
    if number > maximum:
        raise ProblemError(400, "invalid_argument", f"{name}: at most {maximum}")
    return number or default
