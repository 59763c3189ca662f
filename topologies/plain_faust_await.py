"""An await step in Faust's own agents: what it takes, and why the engine exists.

    faust -A topologies.plain_faust_await worker

An item is remembered in a changelog table and asked about on one topic; the answer comes back on another and goes on
with what was remembered. That is all of it, and for much work it is enough.

What it costs: every event is a task switch, an acknowledgement and a produce call of its own, and the table writes its
changelog record by record.

What it loses, and the engine does not:
- The table and the topics are not one transaction. Killed in between, it asks for an item it has forgotten, or forgets
  one that it has asked for; a repeat asks again under no stable id, so the provider may act twice.
- An event whose agent raises counts as done.
- Answers must carry the item's id as key and the topics must have equally many partitions, or the answer reaches a
  worker that does not know the item.
- Nothing expires, nothing says whether an answer is late, repeated, forged or of somebody else's.
- Outputs stand in the order of answers, and nothing holds the source back.
"""

from __future__ import annotations

from typing import Any

import faust
from faust.types import StreamT

PARTITIONS = 4

app = faust.App("plain-faust-await", topic_partitions=PARTITIONS)


class Item(faust.Record):
    id: str
    payload: dict[str, Any]


class Answer(faust.Record):
    id: str
    approved: bool


items = app.topic("plain-faust-await.items", key_type=str, value_type=Item, internal=True)
requests = app.topic("plain-faust-await.requests", key_type=str, value_type=Item, internal=True)
answers = app.topic("plain-faust-await.answers", key_type=str, value_type=Answer, internal=True)
outputs = app.topic("plain-faust-await.outputs", key_type=str, internal=True)
waiting = app.Table("waiting", key_type=str, value_type=Item, partitions=PARTITIONS)


@app.agent(items)
async def dispatch(stream: StreamT[Item]) -> None:
    async for item in stream:
        waiting[item.id] = item
        await requests.send(key=item.id, value=item)


@app.agent(answers)
async def resume(stream: StreamT[Answer]) -> None:
    async for answer in stream:
        item = waiting.pop(answer.id, None)
        if item is not None:  # else a repeat, or an answer to nobody's question
            await outputs.send(key=item.id, value={**item.payload, "id": item.id, "approved": answer.approved})


@app.task  # type: ignore[untyped-decorator]
async def declare_what_no_agent_reads() -> None:
    for topic in (requests, outputs):
        await topic.maybe_declare()
