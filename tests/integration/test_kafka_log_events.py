"""The input of the tasks: deleted behind the position, and never missed where it was not read."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.contract.reading import values
from tests.integration.clients import fresh
from tests.integration.logs import changelog_of, event, events_of, opened
from tpf_streams.errors import LogCorruptError
from tpf_streams.ports import Turn

pytestmark = pytest.mark.broker


async def test_events_purged_behind_the_position_are_not_missed(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        await log.append([event(application, b"%d" % n) for n in range(5)])
        task = await log.open_task(0)
        await task.commit(Turn(rows={b"00k": b"v"}, positions={events_of(application): 3}))
        await log._purge({0: task.position})
        begin = await log._client.consumer.beginning_offsets([_kafka(application)])
        assert list(begin.values()) == [3]
    async with opened(bootstrap_servers, application, tmp_path / "anew") as log:
        assert await values(await log.open_task(0), 2) == [b"3", b"4"]


async def test_events_purged_before_they_were_read_are_told_of(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        await log.append([event(application, b"%d" % n) for n in range(5)])
        task = await log.open_task(0)
        await task.commit(Turn(positions={events_of(application): 2}))
        async with log._client.admin() as admin:
            await admin.delete_records({_kafka(application): RecordsToDelete(4)})
        with pytest.raises(LogCorruptError, match="begins at 4, and was read only to 2"):
            await log.open_task(0)


async def test_a_changelog_begun_anew_behind_used_events_is_refused(bootstrap_servers, tmp_path):
    application = fresh("app")
    async with opened(bootstrap_servers, application, tmp_path) as log:
        await log.append([event(application, b"%d" % n) for n in range(5)])
        async with log._client.admin() as admin:
            await admin.delete_records({_kafka(application): RecordsToDelete(4)})
        with pytest.raises(LogCorruptError, match="put the changelog back"):
            await log.open_task(0)


def _kafka(application: str) -> Any:
    return changelog_of(application)._replace(topic=f"{application}-events")
