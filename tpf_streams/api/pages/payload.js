// Any JSON value, shown so that it can be read, and so that nothing in it can do more than be read.

import { bdi, el, plain } from "./dom.js";

const DEPTH = 6; // deeper than that a phone has no width left
const MEMBERS = 50;
const CHARS = 1_500;

export function shown(value, depth = 0) {
  if (typeof value === "string") return text(value);
  if (value === null || typeof value !== "object") return el("span", { class: "value" }, String(value));
  if (depth >= DEPTH) return text(JSON.stringify(value));
  return Array.isArray(value)
    ? list(value, "ol", (it) => el("li", {}, shown(it, depth + 1)))
    : list(Object.entries(value), "dl", ([name, it]) =>
        el("div", {}, el("dt", {}, bdi(cut(name, 100))), el("dd", {}, shown(it, depth + 1))));
}

function text(value) {
  if (value.length <= CHARS) return el("span", { class: "value" }, bdi(value));
  const whole = el("details", {}, el("summary", {}, `All ${value.length.toLocaleString()} characters`));
  whole.addEventListener("toggle", () => whole.append(el("span", { class: "value" }, bdi(value))), { once: true });
  return el("span", { class: "value" }, bdi(cut(value, CHARS)), whole);
}

function list(members, name, one) {
  if (!members.length) return el("span", { class: "value none" }, "none");
  const found = el(name, { class: "payload" }, members.slice(0, MEMBERS).map(one));
  if (members.length <= MEMBERS) return found;
  const rest = el("button", { type: "button" }, `Show all ${members.length.toLocaleString()}`);
  rest.addEventListener("click", () => {
    found.append(...members.slice(MEMBERS).map(one));
    rest.remove();
  });
  return el("div", {}, found, rest);
}

const cut = (value, chars) => (value.length > chars ? `${value.slice(0, chars)}…` : value);

/** One line that tells one request from another: the first scalar values that people can tell apart. */
export function gist(value) {
  const scalars = (it) =>
    it === null || typeof it !== "object" ? [it] : Object.values(it).slice(0, MEMBERS).filter((one) => one === null || typeof one !== "object");
  const words = scalars(value).filter((it) => it !== null && it !== "" && !TECHNICAL.test(it));
  return plain(cut(words.map((it) => cut(String(it), 40)).join(" · "), 160));
}

const TECHNICAL = /^[0-9a-f]{8}-[0-9a-f-]{27}$|^\d{4}-\d\d-\d\dT/i;
