"""The pipeline of an app: a file whose steps may be bound here, or steps declared here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpf_streams.dsl.assembly import Outline
from tpf_streams.dsl.declared import DeclaredSteps
from tpf_streams.dsl.load import LoadedPipeline, load_pipeline, read_outline
from tpf_streams.dsl.report import one_of, suggestion
from tpf_streams.dsl.settings import Settings
from tpf_streams.dsl.written import PipelineDocument
from tpf_streams.errors import DefinitionError, Problem
from tpf_streams.runtime.loading import check_runnable


class AppPipeline:
    """Read as late as can be: names when a topic is asked for, everything when the worker starts."""

    def __init__(
        self,
        name: str,
        pipeline: str | Path | Mapping[str, Any] | None,
        settings: Mapping[str, str],
        config: Path | None,
    ) -> None:
        self._name = name
        self._file = Path(pipeline) if isinstance(pipeline, str | Path) else None
        self._declared = DeclaredSteps(pipeline if isinstance(pipeline, Mapping) else {})
        self.functions: dict[str, Callable[..., Any]] = {}
        self._settings = dict(settings)
        self._config = config
        self._asked: set[str] = set()

    @property
    def path(self) -> Path:
        return self.written.path if isinstance(self.written, PipelineDocument) else self.written

    def add_step(self, name: str, function: Callable[..., Any], keys: Mapping[str, Any]) -> None:
        """Raises ValueError for a step that has a function already, and for keys that the file says."""
        if name in self.functions:
            raise ValueError(f"step {name!r} has a function already: {self.functions[name].__qualname__}")
        self.functions[name] = function
        if self._file is None:
            self._declared.service(name, function, keys)
        elif keys:
            raise ValueError(f"step {name!r}: {self._file} says {one_of(keys)}; keep it there")

    def add_await(self, name: str, keys: Mapping[str, Any], file: str, line: int) -> None:
        """Raises ValueError as `add_step` does. A declared step is asked for again without keys."""
        if self._file is not None and keys:
            raise ValueError(f"step {name!r}: {self._file} says {one_of(keys)}; keep it there")
        if self._file is None and keys:
            self._declared.awaits(name, keys, file, line)
        self._asked.add(name)

    def outline(self, application_id: str) -> Outline:
        """The names. Raises DefinitionError for a file that cannot be read."""
        overrides = {**self._settings, "pipeline.application-id": application_id}
        return read_outline(self.written, settings_overrides=overrides, config=self._config)

    def given(self) -> Settings:
        """What is written outside of Faust's settings."""
        return read_outline(self.written, settings_overrides=self._settings, config=self._config).settings

    def topic(self, outline: Outline, step: str, way: str) -> str:
        """The name of an await step's topic, by `request` or `response`. Raises DefinitionError."""
        found = outline.awaits.get(step)
        if found is None:
            raise DefinitionError(list(outline.problems) or [self._unknown(step, outline)])
        if found.type != "kafka":
            raise DefinitionError([Problem(str(self.path), 0, step, f"transport {found.type} has no topics")])
        name: str = found.options[way]["topic"].strip()
        return name

    def load(self, overrides: Mapping[str, str]) -> LoadedPipeline:
        """Everything, checked. Raises DefinitionError."""
        loaded = load_pipeline(
            self.written,
            settings_overrides={**self._settings, **overrides},
            config=self._config,
            functions=self.functions,
        )
        check_runnable(loaded.definition, str(self.path))
        outline = self.outline(loaded.definition.application_id)
        unknown = [self._unknown(name, outline) for name in sorted(self._asked) if name not in outline.awaits]
        if unknown:
            raise DefinitionError(unknown)
        return loaded

    @property
    def written(self) -> Path | PipelineDocument:
        return self._file or self._declared.document(self._name)

    def _unknown(self, step: str, outline: Outline) -> Problem:
        message = f"no await step has this name: {one_of(outline.awaits)}.{suggestion(step, outline.awaits)}"
        return Problem(str(self.path), 0, step, message)
