"""The keys of pipeline.yaml itself, and of its types (contract 12.2)."""

from __future__ import annotations

from tpf_streams.core.step import OnItemFailure
from tpf_streams.dsl.keys import (
    NAME,
    Key,
    Kind,
    Table,
    choice,
    mapping,
    text,
    unused,
)
from tpf_streams.dsl.keys_objects import INPUT, OUTPUT, PUBLISH, SOURCE
from tpf_streams.dsl.keys_steps import BY_KIND

VERSIONS = ("2", "3")

_RECORD_OR_UNION = Table(
    {
        "fields": Key(Kind.FIELDS, "The fields of a type, in order; types are scalars or declared ones."),
        "variants": mapping(
            "The arms of a union, each with a type of its own (version 3).",
            table=Table(each=Key(Kind.ARM, "The type of this arm; a completion's payload has the arm as its one key.")),
        ),
    },
    some_of=(("fields", "variants"),),
    one_of=(("fields", "variants"),),
)
_UNION = Table(
    {"variants": mapping("The arms of a union.", required=True, table=_RECORD_OR_UNION.keys["variants"].table)}
)
ARM = Table({"type": text("The type of this arm.", required=True)})

ROOT = Table(
    {
        "version": choice("Of this layout.", required=True, choices=VERSIONS),
        "appName": text("The application; in kebab-case it names topics, groups and folders.", required=True),
        "transport": choice(
            "Runs LOCAL for now, whichever.", choices=("GRPC", "REST", "LOCAL"), setting="pipeline.transport"
        ),
        "platform": choice("Only COMPUTE for now.", choices=("COMPUTE",), setting="pipeline.platform"),
        "onItemFailure": choice("A step that fails for good.", choices=tuple(OnItemFailure), setting="onItemFailure"),
        "settings": Key(Kind.SETTINGS, "Settings, nested or dotted; every other place of them wins."),
        "types": mapping("Declared types.", table=Table(each=mapping("A type.", table=_RECORD_OR_UNION), names=NAME)),
        "unions": mapping(
            "Unions, apart from types (version 2).", table=Table(each=mapping("A union.", table=_UNION), names=NAME)
        ),
        "sources": mapping(
            "Folders that executions come from.", table=Table(each=mapping("A polled folder.", table=SOURCE))
        ),
        "input": mapping("Where executions come from.", table=INPUT),
        "publish": mapping(
            "Folders for output files.",
            table=Table(
                {"topic": text("The output topic.", setting="publish.topic")},
                each=mapping("A folder for output files.", table=PUBLISH),
            ),
        ),
        "output": mapping("Where outputs go.", table=OUTPUT),
        "steps": Key(
            Kind.STEPS,
            "The steps, in order.",
            required=True,
            variants=BY_KIND,
        ),
        "basePackage": text("Version 3: requests name their types `<basePackage>.grpc.PipelineTypes$<type>`."),
        "runtimeLayout": unused("one process runs the whole pipeline"),
        "aspects": unused("aspects of the reference do not exist here"),
        "contract": unused("there is no contract check between releases"),
    }
)
