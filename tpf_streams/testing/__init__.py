"""For tests of pipelines, ours and yours: a driver without a broker, a clock you turn, providers you script."""

from tpf_streams.testing.clock import ManualClock
from tpf_streams.testing.driver import TopologyTestDriver
from tpf_streams.testing.provider import SimulatedProvider

__all__ = ["ManualClock", "SimulatedProvider", "TopologyTestDriver"]
