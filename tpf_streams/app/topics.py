"""The topics of an await step as Faust's own: to look at them, to send to them, to run agents on them."""

from __future__ import annotations

from collections.abc import Callable

from faust.types import TopicT


class AwaitTopics:
    """An await step over Kafka. Both topics carry JSON envelopes as dicts (contract 1.1, 1.2).

    Asking for one raises DefinitionError where there is no such step, or where it has another transport.
    """

    def __init__(self, name: str, topic: Callable[[str], TopicT]) -> None:
        self.name = name
        self._topic = topic

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    @property
    def requests(self) -> TopicT:
        return self._topic("request")

    @property
    def responses(self) -> TopicT:
        return self._topic("response")
