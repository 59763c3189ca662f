"""Metrics beside contract 10.1: names, labels, units; and bounds, whatever a fact says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.topology.scrapes import Scrape, prometheus_name
from tests.unit.core.machine import pipeline
from tpf_streams.core.effects import Fact
from tpf_streams.core.step import AwaitDefinition
from tpf_streams.observability.catalogue import COUNTERS, HISTOGRAMS, LABELS, SLOT_OUTCOME, SLOT_OUTCOMES
from tpf_streams.observability.exposition import scrape
from tpf_streams.observability.labels import _KNOWN
from tpf_streams.observability.measures import Usage
from tpf_streams.observability.metrics import Metrics

ROOT = Path(__file__).parents[3]
S = ("step_id", "transport", "status")
C = "cardinality"
CONTRACT = {
    "interaction.created.total": S,
    "interaction.dispatched.total": S,
    "unit.dispatch_complete.total": (*S, C),
    "completion.admitted.total": S,
    "item.completed.total": (*S, C),
    "completion.early_held.total": (*S, C),
    "resume.released.total": (*S, C),
    "live.handoff.total": S,
    "scalar.continuation.started.total": S,
    "unit.terminal.total": (*S, C),
    "completion.dropped.total": ("transport", "reason"),
    "completion.latency": S,
    "unit.duration": (*S, C),
    "admission.outcomes.total": (*S, "outcome"),
}
"""Contract 10.1, the part that counts facts. Of slots there are also `admission.pending` and `admission.wait`."""


@pytest.fixture
def metrics():
    return Metrics(pipeline("sk"), CollectorRegistry())


def read(metrics: Metrics) -> Scrape:
    return Scrape(scrape(metrics.registry, "")[0].decode())


def step_of(metrics: Metrics) -> AwaitDefinition:
    return next(step for step in pipeline("sk").steps if isinstance(step, AwaitDefinition))


def test_the_names_and_labels_are_those_of_the_contract():
    specs = {it.name: it.labels for it in (*COUNTERS, *HISTOGRAMS, SLOT_OUTCOME)}
    assert {name: specs[prometheus_name(name)] for name in CONTRACT} == CONTRACT
    assert LABELS["step_id"] == "tpf_await_step_id"
    assert LABELS["reason"] == "tpf_await_completion_reason"
    assert LABELS["outcome"] == "tpf_await_admission_outcome"


def test_every_name_is_in_the_first_scrape(metrics):
    found = read(metrics)
    names = [*CONTRACT, "admission.pending", "admission.wait"]
    missing = [name for name in names if prometheus_name(name.removesuffix(".total")) not in found.families]
    assert missing == []
    assert found.total("completion.admitted.total", step_id="Step1") == 0, "a rate needs a zero to begin at"


def test_facts_of_one_turn_are_added_up(metrics):
    step = step_of(metrics)
    metrics.observe([Fact("item.completed.total", step.unit_labels) for _ in range(3)])
    metrics.observe([Fact("item.completed.total", dict(step.unit_labels), count=2)])
    found = read(metrics)
    assert [(it.value, it.labels) for it in found.samples("item.completed.total")] == [
        (
            5,
            {
                "tpf_await_step_id": "Step1",
                "tpf_await_transport": "kafka",
                "tpf_await_status": "COMPLETED",
                "tpf_await_cardinality": "ONE_TO_ONE",
            },
        )
    ]


def test_latency_in_milliseconds_where_there_is_any(metrics):
    step = step_of(metrics)
    took = (0, 3, 250, 86_400_000 * 5, 86_400_000 * 30)
    metrics.observe([Fact("completion.admitted.total", step.labels, {"latencyMs": ms}) for ms in took])
    found = read(metrics)
    assert found.total("completion.admitted.total") == 5
    assert found.total("completion.latency.count") == 4
    assert found.total("completion.latency.bucket", le="400.0") == 2
    by_bound = {float(it.labels["le"]): it.value for it in found.samples("completion.latency.bucket")}
    days = 86_400_000
    assert by_bound[7 * days] - by_bound[3 * days] == 1, "a person who answers after five days is seen"
    assert found.quantile("completion.latency", 0.5) <= 400


def test_whatever_a_fact_says_series_are_few(metrics):
    """Right: thousands of made-up values come to one series each metric, called unknown, and no id is a label."""
    hostile = ["", "\n", "a" * 100_000, "\ud800", '"}', *map(str, range(2_000))]
    for name in [it.fact for it in COUNTERS]:
        metrics.observe(
            [Fact(name, dict.fromkeys(LABELS, text), {"executionId": text, "latencyMs": text}) for text in hostile]
        )
    found = read(metrics)
    assert max(len(family.samples) for family in found.families.values()) <= 20
    values = {value for family in found.families.values() for it in family.samples for value in it.labels.values()}
    assert not values & set(hostile)


def test_a_fact_without_a_place_is_counted_all_the_same(metrics):
    metrics.observe([Fact("something.new.total", {"step_id": "Step1"}, {"unitId": "u"}, 4)])
    assert [(it.value, it.labels) for it in read(metrics).samples("something.new.total")] == [(4, {})]


def test_every_fact_and_reason_in_the_program_is_known():
    parts = [ROOT / "tpf_streams" / part for part in ("core", "engine")]
    code = "".join(path.read_text() for part in parts for path in part.glob("*.py"))
    facts = set(re.findall(r'act\(\s*"([\w.]+\.total)"', code))
    known = {it.fact for it in COUNTERS} | SLOT_OUTCOMES.keys()
    assert "execution.submitted.total" in facts and facts - known == set(), "give each a line in catalogue.py"
    reasons = {*re.findall(r'WireError\("(\w+)"', code), *re.findall(r'_set_aside\([\w.]+, "(\w+)"', code)}
    assert reasons and reasons <= _KNOWN["reason"]


def test_retries_and_waits_are_measured_under_the_steps_name(metrics):
    metrics.measures.retried()
    metrics.measures.slot_waited(1, 0.25)
    metrics.measures.slot_waited(1, 0)
    metrics.measures.in_use(Usage(slots_held={"Step1": 7}))
    found = read(metrics)
    assert found.value("tpf_retries_total") == 1
    assert (found.total("admission.wait.count"), found.total("admission.wait.sum")) == (1, 250)
    assert found.total("admission.pending", step_id="Step1", admission_outcome="acquired") == 7


@pytest.mark.parametrize(("letters", "count"), [("sk", 3), ("sw", 0)])
def test_a_slot_is_taken_with_its_interaction_where_there_is_a_budget(letters, count):
    metrics = Metrics(pipeline(letters), CollectorRegistry())
    metrics.observe([Fact("interaction.created.total", {"step_id": "Step1"})] * 3)
    assert read(metrics).total("admission.outcomes.total", admission_outcome="acquired") == count
