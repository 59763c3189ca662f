"""The keys of `sources`, `input`, `publish` and `output` (contract 12.3, 0.15, 0.16, 0.22, 0.23)."""

from __future__ import annotations

from enum import StrEnum

from tpf_streams.core.step import OnRowError
from tpf_streams.dsl.keys import (
    Key,
    Kind,
    Table,
    choice,
    duration,
    flag,
    integer,
    mapping,
    refused,
    text,
    texts,
    unused,
)
from tpf_streams.dsl.setting import Status

IDENTITY_FIELDS = ("provider", "container", "key", "etag")
_NO_HANDOFF = "checkpoint handoff between pipelines is not supported yet"
_BY_STEPS = "objects are read and written by steps and the publisher"


class OnExisting(StrEnum):
    VERSION = "version"
    FAIL = "fail"


class Quirks(StrEnum):
    NONE = "none"
    REFERENCE = "reference"


_ENDPOINT_TYPE = Table(
    {
        "type": text("A Python class as package.module:Class, which stands for the type."),
        "typeName": text("The declared type; that of the step beside it."),
        "mapper": unused(_BY_STEPS),
    }
)
_OBJECT: dict[str, Key] = {
    "kind": choice("What it is.", required=True, choices=("object",)),
    "provider": choice("Where objects lie.", required=True, choices=("filesystem",)),
    "mapper": unused(_BY_STEPS),
}
SOURCE = Table(
    _OBJECT
    | {
        "location": mapping(
            "Where the folder is.",
            required=True,
            table=Table(
                {
                    "root": text("Relative to the pipeline file.", required=True),
                    "prefix": Key(Kind.RAW_TEXT, "Only keys that begin so.", default=""),
                }
            ),
        ),
        "filter": mapping(
            "Which files.",
            table=Table(
                {
                    "include": texts("Patterns of names; one must fit.", default="*"),
                    "exclude": texts("Patterns of names; none may fit."),
                }
            ),
        ),
        "poll": mapping(
            "How often workers look at the source; a run lists it once, object by object.",
            table=Table(
                {
                    "enabled": flag("Whether workers look at it at all.", default="true"),
                    "interval": duration("How often.", default="PT10S"),
                    "batchSize": integer("Objects submitted at once.", minimum=1, maximum=100_000, default="50"),
                }
            ),
        ),
        "identity": mapping(
            "What makes a file the same file.",
            table=Table({"fields": texts("key and etag must be among them.", default=", ".join(IDENTITY_FIELDS))}),
        ),
        "payload": mapping(
            "How files are read.",
            table=Table(
                {
                    "mode": choice("Only the reference travels, not the bytes.", choices=("reference",)),
                    "encoding": text("Of the files.", setting="encoding"),
                }
            ),
        ),
        "onRowError": choice("A bad row.", choices=tuple(OnRowError), exact=True, setting="onRowError"),
    }
)
PUBLISH = Table(
    _OBJECT
    | {
        "location": mapping(
            "Where the folder is.",
            required=True,
            table=Table({"root": text("Relative to the pipeline file.", required=True)}),
        ),
        "naming": mapping(
            "What objects are called.",
            table=Table({"keyTemplate": text("{groupKey} is the input's name.", default="{groupKey}.out")}),
        ),
        "payload": mapping(
            "What is in them.",
            table=Table({"contentType": choice("Of the object.", choices=("text/csv",), default="text/csv")}),
        ),
        "grouping": mapping(
            "How rows become objects.",
            table=Table(
                {
                    "maxOpenGroups": Key(
                        Kind.INTEGER,
                        "Accepted, without effect here.",
                        minimum=1,
                        maximum=1024,
                        status=Status.NOTED,
                        why="each execution writes its own object, from its first row to its last",
                    )
                }
            ),
        ),
        "onExisting": choice("A name that is there.", choices=tuple(OnExisting), exact=True, setting="onExisting"),
        "quirks": choice("Dialect of the file.", choices=tuple(Quirks), exact=True, setting="quirks"),
    }
)
INPUT = Table(
    {
        "from": text("The name of a source."),
        "emits": mapping("What it gives.", table=_ENDPOINT_TYPE),
        "subscription": refused(_NO_HANDOFF),
    },
    some_of=(("from", "subscription"),),
)
OUTPUT = Table(
    {
        "to": text("The name of a publish."),
        "consumes": mapping("What it takes.", table=_ENDPOINT_TYPE),
        "checkpoint": refused(_NO_HANDOFF),
    },
    some_of=(("to", "checkpoint"),),
)
