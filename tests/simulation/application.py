"""Assembly: a process of the application in its world, every port of the engine filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.simulation.outside import Publisher, PushTransport
from tests.simulation.pipelines import PUSHED, SECRET
from tests.simulation.process import Process
from tests.simulation.steps import Steps
from tests.simulation.words import Fault
from tpf_streams.core.token import TokenSigner
from tpf_streams.engine.budgets import Budgets
from tpf_streams.engine.environment import Environment
from tpf_streams.engine.retry import RetryPolicy
from tpf_streams.engine.segments import SegmentRunner
from tpf_streams.ports import AwaitTransport
from tpf_streams.transports.interaction_api import InteractionApiTransport
from tpf_streams.transports.kafka import KafkaTransport

if TYPE_CHECKING:
    from tests.simulation.world import World


def new_process(world: World, number: int, partitions: Sequence[int]) -> Process:
    """A process that has not opened its tasks: their first turns do."""
    made: list[Process] = []

    def ran() -> None:
        """Outside work is done; the world may want its result to be lost."""
        if world.lose_result and made:
            world.lose_result, made[0].doomed = False, True
            world.count_all(Fault.RESULT_LOST)

    definition = world.pipeline.definition
    steps = Steps(world.pipeline, world.sources, world.failures, world.clock, world.pulled, ran)
    environment = Environment(
        definition,
        world.log,
        world.clock,
        _transports(world, ran),
        SegmentRunner(definition, steps, world.clock, RetryPolicy(world.retries, 200, 1_000), None),
        Budgets(definition),
        publisher=Publisher(world.bookshelf, world.publish_failed, ran),
        observer=world,
        batch_max=world.batch_max,
        segments_max=4,
        deadline_grace_ms=world.grace_ms,
    )
    process = Process(number, environment, partitions)
    made.append(process)
    return process


def _transports(world: World, ran: Callable[[], None]) -> dict[str, AwaitTransport]:
    signer = TokenSigner((SECRET,))
    transports: dict[str, AwaitTransport] = {
        "kafka": KafkaTransport(signer),
        "interaction-api": InteractionApiTransport(),
    }
    for kind in PUSHED:
        transports[kind] = PushTransport(
            kind, signer, world.sending, world.clock, world.provider.receive, world.send_failed, ran
        )
    return transports
