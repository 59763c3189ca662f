// The inbox: what waits for an answer, kept up to date while somebody works through it.

import { ask, Refusal } from "./api.js";
import { Decision } from "./decision.js";
import { bdi, el, keep, setText } from "./dom.js";
import { listen } from "./live.js";
import { gist } from "./payload.js";
import { begin, notify } from "./session.js";
import { age, due, urgent, whyNot } from "./words.js";

const PAGE = 50;
const CALLS = 10; // a filter that fits nothing must not read everything there is at every look
const SOON_MS = 150;
const ANYWAY_MS = 20_000; // what other workers have is not told of here

const list = document.getElementById("entries");
const count = document.getElementById("count");
const more = document.getElementById("more");
const line = document.getElementById("line");
const main = document.getElementById("main");
const filters = document.getElementById("filters");

const decision = new Decision(document.getElementById("decision"), () => refresh());
const query = new URLSearchParams(location.search);
let entries = [];
let wanted = PAGE;
let stop = () => {};

// --- the list ------------------------------------------------------------------------------------------------------

let looking = null;
let again = false;

/** Looks once more behind a look that is under way: what is under way may have missed what happened since. */
function refresh() {
  if (looking) again = true;
  looking ??= look().finally(() => {
    looking = null;
    if (again) {
      again = false;
      refresh();
    }
  });
  return looking;
}

async function look() {
  try {
    const { found, cursor } = await pages();
    entries = found;
    show(cursor !== null);
    await decision.check();
    notify("");
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    notify(whyNot(error));
  }
}

async function pages() {
  const found = [];
  let cursor = null;
  for (let calls = 0; calls < CALLS; calls += 1) {
    const asked = new URLSearchParams(query);
    asked.set("limit", Math.min(wanted - found.length, 500));
    if (cursor) asked.set("cursor", cursor);
    const page = await ask("GET", `/pipeline/interactions/pending?${asked}`);
    found.push(...page.body);
    cursor = page.next;
    if (cursor === null || found.length >= wanted) break;
  }
  return { found, cursor };
}

function show(isMore) {
  keep(list, entries, (it) => it.interactionId, entry, update);
  const words = entries.length ? `${entries.length}${isMore ? " and more" : ""} waiting` : "Nothing waits for you.";
  setText(count, words);
  document.title = document.title.replace(/^(\(\d+\+?\) )?/, entries.length ? `(${entries.length}${isMore ? "+" : ""}) ` : "");
  more.hidden = !isMore;
}

function entry(it) {
  return el("li", {}, el("a", { href: `#${it.interactionId}` },
    el("span", { class: "step" }, bdi(it.step), it.itemIndex === null ? "" : ` · item ${it.itemIndex}`),
    el("span", { class: "gist" }, bdi(gist(it.requestPayload))),
    el("span", { class: "whose" }, it.group && bdi(it.group), it.group && it.assignee ? " · " : "", it.assignee && bdi(it.assignee)),
    el("span", { class: "times" }, "waiting ", el("span", { class: "age" }), ", due ", el("span", { class: "due" }))));
}

function update(node, it) {
  setText(node.querySelector(".age"), age(it));
  const left = node.querySelector(".due");
  setText(left, due(it));
  left.classList.toggle("urgent", urgent(it));
  const link = node.firstElementChild;
  if (it.interactionId === chosen()) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
}

function tick() {
  for (const it of entries) {
    const node = link(it.interactionId)?.parentElement;
    if (node) update(node, it);
  }
  decision.tick();
}

// --- what is chosen -------------------------------------------------------------------------------------------------

const chosen = () => decodeURIComponent(location.hash.slice(1));

const link = (id) => list.querySelector(`[data-key="${CSS.escape(id)}"] a`);

async function choose() {
  const id = chosen();
  const before = decision.it?.interactionId;
  main.classList.toggle("chosen", id !== "");
  tick();
  if (id === "") {
    decision.close();
    if (before) (link(before) || list.querySelector("a") || main).focus();
    return;
  }
  try {
    await decision.open(id);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    decision.close(error.status === 404 ? "There is no such work, or no longer." : whyNot(error));
  }
}

// --- what comes in --------------------------------------------------------------------------------------------------

let soon = 0;

function listenAnew() {
  stop();
  stop = listen(`/pipeline/interactions/changes?${query}`, () => {
    clearTimeout(soon);
    soon = setTimeout(refresh, SOON_MS);
  }, (live) => setText(line, live ? "Live" : "Not live: looking now and then"));
}

async function offerSteps() {
  const { body } = await ask("GET", "/pipeline/steps");
  const choices = body.map((it) => el("option", { value: it.stepId }, bdi(it.step).textContent));
  filters.elements.stepId.replaceChildren(el("option", { value: "" }, "All"), ...choices);
  filters.elements.stepId.value = query.get("stepId") ?? "";
}

function filter(event) {
  event.preventDefault();
  for (const name of ["stepId", "group", "assignee"]) {
    const text = filters.elements[name].value.trim();
    if (text) query.set(name, text);
    else query.delete(name);
  }
  history.replaceState(null, "", `?${query}${location.hash}`);
  wanted = PAGE;
  listenAnew();
  refresh();
}

function restart() {
  offerSteps().catch((error) => notify(whyNot(error)));
  listenAnew();
  refresh();
  if (decision.it === null) choose();
}

for (const name of [...query.keys()]) if (!["stepId", "group", "assignee"].includes(name)) query.delete(name);
for (const [name, text] of query) filters.elements[name].value = text;
filters.addEventListener("submit", filter);
more.addEventListener("click", () => {
  wanted = entries.length + PAGE;
  refresh();
});
addEventListener("hashchange", choose);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || tick(), 1_000);
setInterval(() => document.hidden || refresh(), ANYWAY_MS);
begin(restart);
restart();
