// What became of one execution, while it runs and after.

import { ask, Refusal } from "./api.js";
import { bdi, el, facts, keep, plain, setText } from "./dom.js";
import { attribute, History } from "./history.js";
import { begin, notify } from "./session.js";
import { moment, span, whyNot } from "./words.js";

const LOOK_MS = 2_000;
const ENDED_MS = 15_000; // it may be redriven
const SETTLED = 2; // looks without a change: events may be readable a moment later than the row that they changed
const ANYWAY = 5; // an answer that is refused changes no row
const PAGES = 4; // of events, before somebody wants more
const ROWS = 200;

const id = decodeURIComponent(location.pathname.split("/").pop());
const $ = (name) => document.getElementById(name);
const more = $("more");

let history = new History();
let row = null;
let replay = null; // the newest page of it
let seen = ""; // the row at the last look
let quiet = 0; // looks since it changed
let rows = ROWS;
let allowed = PAGES;
let timer = 0;
let looking = false;
let reading = null;

async function look() {
  clearTimeout(timer);
  if (looking) return;
  looking = true;
  try {
    row = (await ask("GET", `/pipeline/executions/${encodeURIComponent(id)}`)).body;
    showRow();
    const stamp = JSON.stringify(row);
    quiet = stamp === seen ? quiet + 1 : 0;
    seen = stamp;
    if (quiet < SETTLED || quiet % ANYWAY === 0) await events();
    notify("");
    setText($("line"), ended() ? "" : "Live");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const gone = { 404: "There is no such execution.", 410: "It ended, and has been deleted since: nothing of it is left." };
    notify(gone[error.status] ?? whyNot(error));
    setText($("line"), "");
  } finally {
    looking = false;
    timer = setTimeout(() => document.hidden || look(), ended() && quiet >= SETTLED ? ENDED_MS : LOOK_MS);
  }
}

/** One reader at a time: two would add the same events twice. */
function events() {
  reading ??= read().finally(() => {
    reading = null;
  });
  return reading;
}

async function read() {
  do {
    if (replay?.more && allowed <= 0) break;
    replay = (await ask("GET", `/pipeline/executions/${encodeURIComponent(id)}/replay?start=${replay?.next ?? 0}`)).body;
    history.add(replay.events);
    if (replay.more) allowed -= 1;
    showHistory();
  } while (replay.more);
}

const ended = () => row !== null && ["SUCCEEDED", "FAILED", "DLQ"].includes(row.status);

// --- where it stands ------------------------------------------------------------------------------------------------

function showRow() {
  setText($("execution-id"), plain(id));
  const status = el("span", { class: `status ${row.status.toLowerCase()}` }, row.status);
  const many = row.items > 1;
  const found = facts([
    ["Status", status],
    ["Step", bdi(row.step)],
    ["Key", bdi(row.executionKey)],
    ["Source", row.source && bdi(row.source)],
    ["Began", moment(row.createdAtEpochMs)],
    [ended() ? "Took" : "Last change", ended() ? span(row.updatedAtEpochMs - row.createdAtEpochMs) : moment(row.updatedAtEpochMs)],
    ["Items", many ? `${row.items.toLocaleString()}, in flight ${row.inFlight}, rejected ${row.rejectedItems}` : null],
    ["Outputs", row.outputs.toLocaleString()],
    ["By arm", Object.entries(row.byArm).map(([arm, count]) => `${plain(arm)} ${count}`).join(", ")],
    ["Attempt", row.attempt ? String(row.attempt) : null],
    ["Generation", row.generation ? String(row.generation) : null],
    ["Next try", row.nextDueAtEpochMs ? moment(row.nextDueAtEpochMs) : null],
    ["Published", row.published && bdi(row.published)],
    ["Error", row.errorCode && el("span", {}, bdi(row.errorCode), ": ", bdi(row.errorMessage ?? ""))],
  ]);
  $("summary").replaceChildren(found);
}

function showSteps() {
  const steps = replay.topology.steps;
  const state = (step) => {
    if (row.status === "SUCCEEDED" || step.index < row.stepIndex) return "done";
    if (step.index > row.stepIndex) return "to come";
    return { WAITING_EXTERNAL: "waiting", WAIT_RETRY: "will be tried again", FAILED: "failed", DLQ: "failed" }[row.status] ?? "running";
  };
  keep($("steps"), steps, (it) => String(it.index), (it) => el("li", {},
    el("span", { class: "step" }, bdi(it.step)),
    el("span", { class: "help" }, `${it.actorKind === "external" ? "waits for an answer by" : "calls"} `, bdi(it.service ?? "")),
    el("span", { class: "state" })), (node, it) => {
    setText(node.lastElementChild, state(it));
    node.className = state(it).replace(/ /g, "-");
    if (it.index === row.stepIndex && !ended()) node.setAttribute("aria-current", "step");
    else node.removeAttribute("aria-current");
  });
}

// --- what happened --------------------------------------------------------------------------------------------------

function showHistory() {
  showSteps();
  const { units, interactions, events: all } = history;
  const last = (map) => [...map.values()].slice(-ROWS);
  table($("units"), "Units", ["Step", "Status", "Items", "Began", "Ended", "Unit"], last(units), (it) => [
    bdi(it.step), it.status, items(it), after(it.at), after(it.ended), el("code", {}, it.id),
  ], (it) => it.id, units.size);
  table($("interactions"), "Interactions", ["Step", "Item", "Status", "Began", "Ended", "Refused answers", "Interaction"], last(interactions), (it) => [
    bdi(it.step), it.item ?? "", it.status, after(it.at), after(it.ended), it.refused ? String(it.refused) : "",
    el("a", { href: `/inbox#${it.id}` }, it.id),
  ], (it) => it.id, interactions.size);
  table($("events"), "Events", ["After", "Event", "Step", "Item", "Details"], all.slice(0, rows), (it) => [
    after(it.startTime), el("span", { class: "event" }, plain(it.event)), bdi(it.step), attribute(it, "item_index") ?? "", details(it),
  ], (it) => String(it.sequence), all.length);
  more.hidden = !(all.length > rows || replay.more);
}

const items = (it) =>
  it.expected_item_count === undefined ? "" : `${it.completed_item_count ?? 0} of ${it.expected_item_count}` +
    (Number(it.rejected_item_count) ? `, ${it.rejected_item_count} rejected` : "");

const after = (seconds) => (seconds === undefined ? "" : seconds < 60 ? `${seconds.toFixed(3)}\u00a0s` : span(seconds * 1_000));

const ROUTINE = new Set(["execution_id", "step_id", "step_index", "item_index", "unit_id", "correlation_id", "transport"]);

function details(event) {
  const found = Object.entries(event.attributes ?? {})
    .map(([name, value]) => [name.replace("tpf.await.", ""), value])
    .filter(([name]) => !ROUTINE.has(name));
  if (event.errorType) found.unshift([event.errorType, event.errorMessage ?? ""]);
  return bdi(found.map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", "));
}

/** Rows that are there stay; of those that change the cells are written anew. */
function table(place, title, columns, found, cells, keyOf, total) {
  if (!found.length) return place.replaceChildren(el("p", { class: "none" }, "None."));
  if (!place.querySelector("table")) {
    const head = el("tr", {}, columns.map((it) => el("th", { scope: "col" }, it)));
    const body = el("table", {}, el("thead", {}, head), el("tbody"));
    // It scrolls sideways by itself, also with the keyboard, so that the page need not.
    place.replaceChildren(el("div", { class: "wide", role: "region", "aria-label": title, tabindex: "0" }, body), el("p", { class: "help" }));
  }
  const write = (node, it) => {
    const stamp = JSON.stringify(it);
    if (node.stamp === stamp) return;
    node.stamp = stamp;
    node.replaceChildren(...cells(it).map((cell, place_) => el("td", { "data-label": columns[place_] }, cell)));
  };
  keep(place.querySelector("tbody"), found, keyOf, () => el("tr"), write);
  setText(place.lastElementChild, found.length < total ? `${found.length} of ${total.toLocaleString()} are shown.` : "");
}

more.addEventListener("click", async () => {
  rows += ROWS;
  allowed = PAGES;
  if (history.events.length <= rows && replay.more) await events();
  showHistory();
});
document.addEventListener("visibilitychange", () => document.hidden || look());
begin(() => {
  history = new History();
  replay = null;
  seen = "";
  allowed = PAGES;
  look();
});
look();
