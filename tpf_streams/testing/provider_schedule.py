"""When the answers of a simulated provider leave: after a delay, as fast as permits allow, one by one or in bursts.

First in, first out, so that no position overtakes an answer that has not left.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from tpf_streams.ports import Clock, Record, TopicPartition
from tpf_streams.testing.provider_options import ProviderOptions, ten_thousandths

BURST_WAIT_S = 1.0
"""How long a burst waits to be full (contract 12.3)."""

Positions = Mapping[TopicPartition, int]


@dataclass(slots=True)
class Due:
    """Answers that leave together, and the positions that are done with them."""

    ready_s: float
    requests: int = 0
    answers: list[Record] = field(default_factory=list)
    positions: dict[TopicPartition, int] = field(default_factory=dict)


class AnswerSchedule:
    """Answers on their way out."""

    def __init__(self, options: ProviderOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._due: deque[Due] = deque()
        self._next_permit_s = 0.0
        self._twice = ten_thousandths(options.duplicates)
        self._salt = options.seed & 0xFFFFFFFF

    def add(self, answers: Sequence[Record], behind: Sequence[Positions]) -> None:
        """`behind`: to each answer the positions that are done when it has left; one more where there is no answer.

        With permits or bursts each answer has a time of its own, else all leave as one.
        """
        ready_s = _exact(self._clock.monotonic_s() + self._options.delay_ms / 1000)
        permits = self._options.permits_per_second
        if not answers or (permits is None and self._options.burst == 1):
            self._add_batch(ready_s, answers, behind)
            return
        for answer, positions in zip(answers, behind, strict=True):
            if permits is not None:
                ready_s = max(ready_s, self._next_permit_s)
                self._next_permit_s = _exact(ready_s + 1 / permits)
            self._join(ready_s, answer, positions)

    def take(self) -> list[Due]:
        """What is due now."""
        now_s = self._clock.monotonic_s()
        found: list[Due] = []
        while self._due and self._due[0].ready_s <= now_s:
            found.append(self._due.popleft())
        return found

    def clear(self) -> None:
        self._due.clear()

    @property
    def next_ms(self) -> int | None:
        """How far time must move for the next answer to leave, rounded up; None when nothing is open."""
        if not self._due:
            return None
        left_s = self._due[0].ready_s - self._clock.monotonic_s()
        return max(0, ceil(_exact(left_s * 1000)))

    def _add_batch(self, ready_s: float, answers: Sequence[Record], behind: Sequence[Positions]) -> None:
        positions = {place: offset for moved in behind for place, offset in moved.items()}
        if not answers and self._due:
            # Behind a burst that is not full yet, so that what gets no answer does not break bursts up.
            self._due[-1].positions |= positions
            return
        twice = filter(self._is_sent_twice, answers)
        self._due.append(Due(ready_s, len(answers), [*answers, *twice], positions))

    def _join(self, ready_s: float, answer: Record, positions: Positions) -> None:
        """Into the burst that still waits for answers, or into a new one."""
        burst = self._options.burst
        last = self._due[-1] if self._due else None
        if last is None or last.requests >= burst or last.ready_s <= ready_s:
            last = Due(_exact(ready_s + BURST_WAIT_S))
            self._due.append(last)
        last.requests += 1
        last.answers += [answer] * (1 + self._is_sent_twice(answer))
        last.positions.update(positions)
        if last.requests == burst:
            last.ready_s = ready_s

    def _is_sent_twice(self, answer: Record) -> bool:
        return self._twice > 0 and zlib.crc32(answer.value or b"", self._salt) % 10_000 < self._twice


def _exact(time: float) -> float:
    """To nine places: sums of binary fractions drift, and a manual clock would stop just before an answer."""
    return round(time, 9)
