// Units and interactions as their events tell of them.

const EVENT_STATUS = {
  await_interaction_dispatched: "DISPATCHED",
  await_completion_early_held: "HELD",
  await_completion_admitted: "COMPLETED",
  await_interaction_timed_out: "TIMED_OUT",
  await_interaction_failed: "FAILED",
  await_interaction_cancelled: "CANCELLED",
};
const REFUSED = /^await_completion_(?!admitted|early_held|held)/;

export class History {
  constructor() {
    this.events = [];
    this.units = new Map();
    this.interactions = new Map();
  }

  /** Events as the replay document has them, each once, in their order. */
  add(events) {
    for (const event of events) {
      this.events.push(event);
      const unit = attribute(event, "unit_id");
      if (!unit) continue;
      this.ofUnit(unit, event);
      if (attribute(event, "interaction_id")) this.ofInteraction(attribute(event, "interaction_id"), unit, event);
    }
  }

  ofUnit(id, event) {
    const it = entryOf(this.units, id, { id, step: event.step, at: event.startTime, status: "OPEN" });
    for (const name of ["status", "expected_item_count", "completed_item_count", "rejected_item_count"]) {
      it[name] = attribute(event, name) ?? it[name];
    }
    if (event.event === "await_unit_terminal") it.ended = event.startTime;
  }

  ofInteraction(id, unit, event) {
    const item = attribute(event, "item_index");
    const it = entryOf(this.interactions, id, { id, unit, step: event.step, item, at: event.startTime, status: "WAITING", refused: 0 });
    const status = EVENT_STATUS[event.event];
    it.status = status ?? it.status;
    if (status && status !== "DISPATCHED" && status !== "HELD") it.ended = event.startTime;
    if (REFUSED.test(event.event)) it.refused += 1;
  }
}

export const attribute = (event, name) => event.attributes?.[`tpf.await.${name}`];

function entryOf(map, id, fresh) {
  if (!map.has(id)) map.set(id, fresh);
  return map.get(id);
}
