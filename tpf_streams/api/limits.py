"""Bounds of the HTTP API, from the settings `http.*`."""

from __future__ import annotations

from dataclasses import dataclass

from tpf_streams.dsl.settings import Settings


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """`read_s`: for the whole body to come. `answer_s`: for an outcome; behind it the client is told to ask again.
    `streams`: clients that listen for changes at the same time."""

    body_bytes: int = 4 * 1024 * 1024
    depth: int = 64
    read_s: float = 10.0
    answer_s: float = 5.0
    streams: int = 64

    @classmethod
    def of(cls, settings: Settings) -> ApiLimits:
        return cls(
            settings.integer("http.max-body-bytes"),
            settings.integer("http.max-depth"),
            settings.millis("http.read-timeout") / 1000,
            settings.millis("http.answer-timeout") / 1000,
            settings.integer("http.max-streams"),
        )
