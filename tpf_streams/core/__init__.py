"""The machine, pure: what an execution is, and what every event does to it.

Theory of operation
-------------------
A pipeline is a list of steps. An *execution* is one run of it. Steps that are not awaits run in *segments*; between two
segments stands an *await unit*, and in the unit one *interaction* for the scalar case, or one an item of a stream.
All rows of an execution live in one partition, and one task decides all its events one after another, so a decision
needs no lock: `decide(state, event) -> Decision(changes, effects, facts)`.

A stream is pulled by its *session*: each element that is an item becomes an interaction, and in flight are the items
dispatched and not yet *settled*. An answer is *admitted* once; on the live path its continuation is owed at once, on
the durable path only when the unit's dispatch is complete and the execution is parked on that unit. An item is settled
by the turn that writes its outputs; that gives its place in the window, and its slot of the admission budget, back.
When the source has ended and everything is settled, the stream ends; an object may still have to be published.

A stream may also end before a step that takes many together. What its items gave is then a *list*, an item a row, and
that step takes it whole, as one request or one run; or the next stream begins from it, as one begins from the list that
an answer is. Which steps these are the shapes of the steps say (`core/course.py`); at each moment an execution has one
stream or none.

Whatever has to be done outside the transaction is an *owed* row, written by the turn that decides it and deleted by the
turn that knows it done. After a crash the rows say what is owed, and it is done again, under the same ids.

Invariants
----------
I1  An interaction leaves the open statuses once, and never comes back.
I2  One completion is admitted per interaction; the first payload is kept.
I3  An item is settled once, but for one that a redrive takes up again because nothing came of it: its output row, or
    its row of the list, exists exactly when it is settled.
I4  dispatched - settled = in flight, 0 <= in flight <= window on the live path.
I5  A slot is held by: a session, for an item not dispatched; an open interaction; or an owed continuation of the live
    path. Every slot goes back once.
I6  A deadline row exists exactly while its interaction is open.
I7  A terminal execution changes no more, and owes nothing but the closing of its open interactions and what its log
    already holds; a redrive alone makes a failed one go on.
I8  A local result is taken only while exactly that work is owed.
I9  Continuations of the durable path start only behind all four gates.
I10 The same state and event give the same decision: ids, deadlines and request bytes are functions of rows.
I11 An answer is kept over all generations: what has one is never asked for again.
I12 An execution goes as a whole, a tombstone in its place, only when it has ended long enough ago and owes nothing; of
    a key at most one life is there at a time.
"""
