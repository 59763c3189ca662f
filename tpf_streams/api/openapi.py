"""The OpenAPI 3.1 document, from the table of routes, the models, and the types of the pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from tpf_streams.api.access import TENANT_HEADER
from tpf_streams.api.models import CompletionProblem, Problem
from tpf_streams.api.problems import PROBLEM_TYPE
from tpf_streams.api.service import Api, Parameter, Route
from tpf_streams.dsl.payload_schema import Schema

TEMPLATE = "#/components/schemas/{model}"
PAYLOAD = "Payload."
"""Before the names of the pipeline's types, which might be called as ours are."""
BEARER = "bearer"
RETRY = {
    "Retry-After": {"description": "Seconds after which to ask again.", "schema": {"type": "integer", "minimum": 0}}
}
UNAVAILABLE = "The rows are with another worker or being restored, or there was no outcome in time; ask again."

Json = dict[str, Any]


def document(api: Api, routes: Sequence[Route]) -> Json:
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(api, route)
    components: Json = {"schemas": {**_models(routes), **_payloads(api)}}
    if api.access.guarded:
        components["securitySchemes"] = {BEARER: {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": api.definition.app_name, "version": version("tpf_streams")},
        "paths": paths,
        "components": components,
    }


def _operation(api: Api, route: Route) -> Json:
    found: Json = {
        "operationId": route.handler.__name__ + "_" + route.handler.__module__.rpartition(".")[2],
        "summary": route.summary,
        "parameters": [*_path_parameters(route.path), *map(_parameter, [*_tenant(api, route), *route.parameters])],
        "responses": {str(status): _answer(route, shape) for status, shape in route.answers.items()},
    }
    refusals = [*route.refusals, *([] if route.tenant == "none" else [400, 401, 403])]
    for status in sorted(set(refusals)):
        found["responses"][str(status)] = _refusal(route)
    found["responses"]["503"] = {**_refusal(route), "description": UNAVAILABLE, "headers": RETRY}
    if api.access.guarded and route.tenant != "none":
        found["security"] = [{BEARER: []}]
    if route.body is not None:
        shape = {"$ref": f"#/components/schemas/{PAYLOAD}Input"} if isinstance(route.body, str) else _ref(route.body)
        body = {"content": {"application/json": {"schema": shape}}, "required": not route.body_optional}
        found["requestBody"] = body
    return {name: value for name, value in found.items() if value not in ([], {})}


def _tenant(api: Api, route: Route) -> list[Parameter]:
    if route.tenant == "none":
        return []
    if api.access.guarded:
        return [Parameter(TENANT_HEADER, "The tenant of the token, or left out.", "header")]
    help = "The tenant." if route.tenant == "named" else "The tenant; without it the default one."
    return [Parameter(TENANT_HEADER, help, "header", route.tenant == "named")]


def _path_parameters(path: str) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _parameter(it: Parameter) -> Json:
    return {"name": it.name, "in": it.place, "required": it.required, "description": it.help, "schema": it.schema}


def _answer(route: Route, shape: type[BaseModel] | Schema | None) -> Json:
    if shape is None:
        kind = "text/event-stream" if route.endless else "text/plain"
        return {"description": "OK", "content": {kind: {"schema": {"type": "string"}}}}
    kind = "application/schema+json" if route.path.endswith("-schema") else "application/json"
    return {"description": "OK", "content": {kind: {"schema": _ref(shape)}}}


def _refusal(route: Route) -> Json:
    model = CompletionProblem if route.path.endswith("/complete") else Problem
    return {"description": "Refused.", "content": {PROBLEM_TYPE: {"schema": _ref(model)}}}


def _ref(shape: type[BaseModel] | Schema) -> Json:
    if isinstance(shape, type):
        return {"$ref": TEMPLATE.format(model=shape.__name__)}
    return {name: _ref(it) if isinstance(it, type) else it for name, it in shape.items()}


def _models(routes: Sequence[Route]) -> dict[str, Json]:
    found: dict[type[BaseModel], None] = {Problem: None, CompletionProblem: None}
    for route in routes:
        shapes = [route.body, *route.answers.values()]
        shapes += [it for shape in shapes if isinstance(shape, dict) for it in shape.values()]
        found |= {it: None for it in shapes if isinstance(it, type)}
    _, schema = models_json_schema([(it, "validation") for it in found], ref_template=TEMPLATE)
    return dict(schema["$defs"])


def _payloads(api: Api) -> dict[str, Json]:
    """The input, and the answer that each step takes; the types inside them beside."""
    found: dict[str, Json] = {}
    _put(found, "Input", api.input_schema)
    for step_id, schema in api.schemas.items():
        _put(found, f"Completion.{step_id}", schema)
    return found


def _put(found: dict[str, Json], name: str, schema: Schema) -> None:
    for inside, part in schema.get("$defs", {}).items():
        found[PAYLOAD + inside] = _moved(part)
    found[PAYLOAD + name] = _moved({key: it for key, it in schema.items() if key not in ("$schema", "$defs")})


def _moved(value: Any) -> Any:
    """With references as they are in this document."""
    if isinstance(value, Mapping):
        return {key: _pointed(it) if key == "$ref" else _moved(it) for key, it in value.items()}
    return [_moved(it) for it in value] if isinstance(value, list) else value


def _pointed(reference: str) -> str:
    return TEMPLATE.format(model=PAYLOAD + reference.removeprefix("#/$defs/"))
