"""`tpf-streams provider` as a process: it answers requests on Kafka, and nobody else's."""

from __future__ import annotations

import signal
import time

import pytest

from tests.e2e.program import finish, result_of
from tests.integration.applications import Payments
from tests.integration.clients import eventually, fresh, send_values, transactional
from tpf_streams.core.envelope import dispatch_envelope, parse_completion
from tpf_streams.dsl.load import load_pipeline
from tpf_streams.logs.kafka.topics import describe
from tpf_streams.ports import Record
from tpf_streams.runtime.kafka import open_kafka_client

pytestmark = pytest.mark.broker


def request(number):
    return dispatch_envelope(
        tenant_id="default",
        execution_id="e",
        interaction_id=f"i-{number}",
        correlation_id=f"c-{number}",
        step_id="ProcessAwaitPaymentProviderService",
        deadline_epoch_ms=1,
        input_type="PaymentRecord",
        output_type="PaymentStatus",
        resume_token=f"token-{number}",
        request_payload={"id": f"id-{number}", "csvId": str(number), "amount": "1.50"},
        transport_metadata=None,
    )


@pytest.fixture
def payments(tmp_path, bootstrap_servers):
    return Payments(tmp_path, bootstrap_servers)


@pytest.fixture
async def client(payments):
    """Its opening makes the topics, as the provider's and the engine's do."""
    loaded = load_pipeline(payments.pipeline, settings_overrides=payments.settings, require_secret=False)
    found = await open_kafka_client(loaded)
    yield found
    await found.close()


def envelope_of(record):
    return parse_completion(record.value or b"", max_bytes=100_000)


async def answers_of(client, payments, count):
    """Answers to `count` requests, and what is repeated among them."""
    reader = await client.open_reader(fresh("reader"), [payments.responses])
    found = []

    async def complete():
        found.extend(await reader.poll(1_000))
        return len({envelope_of(record).interaction_id for record in found}) >= count

    await eventually(complete)
    return found


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ([], {f"c-{number}".encode() for number in range(1, 41)}),
        (["--key", "none", "--burst", "25"], {None}),
        (["--key", "constant", "--permits-per-second", "100"], {b"constant"}),
    ],
)
async def test_every_request_is_answered_and_a_signal_ends_it(payments, client, tmp_path, words, keys):
    await client.append([Record(payments.requests, None, request(number)) for number in range(1, 41)])
    words = ["--reject", "0.08", "--duplicates", "0.2", "--json", *words]
    with payments.provider(*words, log=tmp_path / "provider.log") as process:
        found = await answers_of(client, payments, 40)
        process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()
        ended = finish(process)
        assert time.monotonic() - began_s < 5
    summary = result_of(ended)
    assert (ended.returncode, summary["answered"], summary["skipped"]) == (0, 40, 0)
    assert {record.key for record in found} == keys
    tokens = {envelope.interaction_id: envelope.resume_token for envelope in map(envelope_of, found)}
    assert tokens == {f"i-{number}": f"token-{number}" for number in range(1, 41)}


async def test_missing_topics_are_made_as_the_engine_makes_them(payments, tmp_path):
    with payments.provider(log=tmp_path / "provider.log") as process:
        process.send_signal(signal.SIGINT)
        assert finish(process).returncode == 0
    loaded = load_pipeline(payments.pipeline, settings_overrides=payments.settings, require_secret=False)
    client = await open_kafka_client(loaded)
    async with client.admin() as admin:
        found = await describe(admin, [payments.requests, payments.responses, payments.outputs])
    await client.close()
    assert set(found) == {payments.requests, payments.responses}
    assert found[payments.responses].config["message.timestamp.type"] == "LogAppendTime"


async def test_a_request_of_an_open_transaction_is_seen_only_by_who_reads_uncommitted(payments, client, tmp_path):
    where = (await client.end_offsets([payments.requests])).keys()
    at = min(where, key=lambda each: each.partition)
    async with transactional(payments.bootstrap, fresh("engine")) as producer:
        await producer.begin_transaction()
        await send_values(producer, at, [request(1)])
        with (
            payments.provider("--json", log=tmp_path / "careful.log") as careful,
            payments.provider(
                "--json", "--read-uncommitted", "--group", fresh("rash"), log=tmp_path / "rash.log"
            ) as rash,
        ):
            [answer] = await answers_of(client, payments, 1)
            await producer.abort_transaction()
            assert envelope_of(answer).interaction_id == "i-1"
            for process in (careful, rash):
                process.send_signal(signal.SIGTERM)
            assert [result_of(finish(process))["answered"] for process in (careful, rash)] == [0, 1]
