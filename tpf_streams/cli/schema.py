"""`tpf-streams schema`: what an editor needs to help with pipeline.yaml."""

from __future__ import annotations

import sys

from tpf_streams.dsl.schema import schema_text


def schema() -> None:
    """Print the JSON Schema of pipeline.yaml.

    An editor that knows YAML language servers completes and checks with it. Name it in the first line of the pipeline:

        # yaml-language-server: $schema=pipeline.schema.json

    [bold]Examples[/bold]

        tpf-streams schema > pipeline.schema.json
    """
    sys.stdout.write(schema_text())
