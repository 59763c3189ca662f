"""Looks at what is in use: they go on whatever one of them meets, and know the store's size."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from tests.topology.payments import DATA, open_payments
from tests.topology.scrapes import Scrape
from tpf_streams.errors import LogError
from tpf_streams.observability.exposition import scrape
from tpf_streams.observability.metrics import Metrics
from tpf_streams.runtime import sampler as module
from tpf_streams.runtime.sampler import Sampler, size_of


def test_the_size_of_a_store_is_that_of_its_files(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(b"123")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    assert size_of(tmp_path) == 8 + (tmp_path / "gone").lstat().st_size
    assert size_of(tmp_path / "not there") == 0


def test_a_look_that_fails_is_not_the_last(tmp_path, monkeypatch):
    """A broker that does not answer for its ends: what this process knows by itself is shown all the same."""
    monkeypatch.setattr(module, "USE_S", 0.001)
    failures = 0

    async def silent(topics):
        nonlocal failures
        failures += 1
        raise LogError("nobody answers")

    with open_payments(tmp_path, concurrency=10) as driver:
        metrics = Metrics(driver.definition, CollectorRegistry())
        driver.submit_files(DATA / "payments_12.csv")
        monkeypatch.setattr(driver.log, "end_offsets", silent)
        sampler = Sampler(driver.application, metrics.measures, tmp_path)

        async def until_it_failed_twice() -> None:
            stop = asyncio.Event()
            running = asyncio.ensure_future(sampler.run(stop))
            while failures < 2:
                await asyncio.sleep(0.001)
            stop.set()
            await running

        asyncio.run(until_it_failed_twice())
        found = Scrape(scrape(metrics.registry, "")[0].decode())
        monkeypatch.undo()
    assert found.value("tpf_window_in_flight") == 10
