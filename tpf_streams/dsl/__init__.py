"""pipeline.yaml and settings in, core definitions and bound step callables out.

`load_pipeline` is the door. It reads YAML into nodes that know their line (`document`), takes them apart by the tables
of keys (`keys`, `section`; `declarations`, `steps`, `transports`, `objects`), resolves settings from their four places
(`layers`, `settings`), follows the types from step to step (`routing`), binds callables (`bindings`) and builds the
codecs between JSON and Python (`types`, `codecs`). Every problem names file, line and key, and all are told at once.
The same tables make the JSON Schema for editors (`schema`) and the documentation.
"""

from tpf_streams.dsl.bindings import StepBinding, bind
from tpf_streams.dsl.keys_objects import OnExisting, Quirks
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline, read_outline
from tpf_streams.dsl.objects import ObjectPublishConfig, ObjectSourceConfig
from tpf_streams.dsl.settings import Settings, settings_table_markdown
from tpf_streams.dsl.types import TypeRegistry

__all__ = [
    "LoadedPipeline",
    "ObjectPublishConfig",
    "ObjectSourceConfig",
    "OnExisting",
    "Quirks",
    "Settings",
    "StepBinding",
    "TypeRegistry",
    "bind",
    "load_pipeline",
    "read_outline",
    "settings_table_markdown",
]
