// A form made of a JSON Schema. Each part is {node, read}: `read` gives JSON text, or undefined for what is left out.
// Text and not values: an answer says what was typed, digit for digit.

import { el, plain } from "./dom.js";
import { control, hinted } from "./fields.js";
import { kindOf, resolved, spoken, wrongJson } from "./schema.js";

let ids = 0;

/** `asked`: the request, whose values stand in fields of the same name. */
export function formOf(schema, asked) {
  const defs = schema.$defs ?? {};
  const known = asked !== null && typeof asked === "object" && !Array.isArray(asked) ? asked : {};
  return part(schema, { name: "answer", label: "Answer", required: true, defs, known, depth: 0 });
}

function part(given, at) {
  const { schema, optional } = resolved(given, at.defs);
  const inside = { ...at, required: at.required && !optional, depth: at.depth + 1 };
  const kind = kindOf(schema, at.depth);
  if (kind === "choice") return choice(schema, inside);
  if (kind === "list") return list(schema, inside);
  if (kind === "json") return json(inside);
  if (kind !== "group") return control(kind, schema, inside);
  return inside.required ? group(schema, inside) : given_or_not(() => group(schema, inside), inside);
}

const label = (at) => plain(at.label ?? spoken(at.name));

function choice(schema, at) {
  const name = `choice-${(ids += 1)}`;
  const body = el("div", { class: "arm" });
  const made = new Map();
  let chosen = null;
  const choose = (arm) => {
    chosen = arm.required[0];
    if (!made.has(chosen)) made.set(chosen, part(arm.properties[chosen], { ...at, name: chosen, label: "", required: true }));
    body.replaceChildren(made.get(chosen).node);
  };
  const radio = (arm) =>
    el("label", { class: "radio" },
      el("input", { type: "radio", name, required: true, value: arm.required[0], onchange: () => choose(arm) }),
      spoken(plain(arm.title ?? arm.required[0])));
  const node = el("fieldset", { class: "choice" }, el("legend", {}, label(at)), schema.oneOf.map(radio), body);
  return { node, read: () => (chosen === null ? undefined : `{${JSON.stringify(chosen)}:${made.get(chosen).read() ?? "{}"}}`) };
}

function group(schema, at) {
  const wanted = new Set(schema.required ?? []);
  const parts = Object.entries(schema.properties).map(([name, it]) => {
    const known = at.known?.[name];
    const inside = known !== null && typeof known === "object" ? known : {};
    return [name, part(it, { ...at, name, label: undefined, required: wanted.has(name), given: known, known: inside })];
  });
  const nodes = parts.map(([, it]) => it.node);
  const node = at.label === "" || at.depth === 1
    ? el("div", { class: "group" }, nodes)
    : el("fieldset", { class: "group" }, el("legend", {}, label(at)), nodes);
  return { node, read: () => object(parts) };
}

function object(parts) {
  const members = parts.map(([name, it]) => [name, it.read()]).filter(([, text]) => text !== undefined);
  return `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(",")}}`;
}

/** A part that may be left out: made when it is wanted, so that a type may hold itself. */
function given_or_not(make, at) {
  const body = el("div", {});
  let made = null;
  const toggle = (event) => {
    made = event.target.checked ? make() : null;
    body.replaceChildren(...(made ? [made.node] : []));
  };
  const box = el("input", { type: "checkbox", onchange: toggle });
  return { node: el("div", {}, el("label", { class: "radio" }, box, `Give ${label(at).toLowerCase()}`), body), read: () => made?.read() };
}

function list(schema, at) {
  const items = [];
  const body = el("ol", { class: "items" });
  const add = () => {
    const item = part(schema.items ?? {}, { ...at, name: `${items.length + 1}`, label: "", required: true, known: {} });
    const remove = el("button", { type: "button", onclick: () => drop(item) }, "Remove");
    item.row = el("li", {}, item.node, remove);
    items.push(item);
    body.append(item.row);
    item.node.querySelector("input, select, textarea")?.focus();
  };
  const drop = (item) => {
    items.splice(items.indexOf(item), 1);
    item.row.remove();
    more.focus();
  };
  const more = el("button", { type: "button", onclick: add }, "Add one");
  const node = el("fieldset", { class: "list-field" }, el("legend", {}, label(at)), body, more);
  return { node, read: () => (items.length || at.required ? `[${items.map((it) => it.read() ?? "null").join(",")}]` : undefined) };
}

/** What no schema says more of: its own class refuses what does not fit. */
function json(at) {
  const field = el("textarea", { rows: 6, required: at.required, spellcheck: "false", dir: "auto", class: "json" });
  const { node, text } = hinted(field, { ...at, label: label(at) || "Answer" }, "As JSON.", wrongJson);
  return { node, read: () => (text() === "" ? undefined : text()) };
}
