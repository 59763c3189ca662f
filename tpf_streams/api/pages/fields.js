// The single fields of a form, with their labels, hints and what is wrong with them.

import { el, plain } from "./dom.js";
import { spoken, textual, wrongInteger, wrongText } from "./schema.js";

let ids = 0;

/** `kind`: boolean, integer or text. */
export function control(kind, schema, at) {
  if (kind === "boolean") return truth(at);
  if (kind === "integer") return number(schema, at);
  const { format } = textual(schema);
  if (format === "date-time") return time(at);
  return text(schema, at, format);
}

/** A field under its label. -> {node, text: what stands in it}. `wrong(text)`: what is wrong with it, or nothing. */
export function hinted(field, at, hint = "", wrong = () => "") {
  const id = `field-${(ids += 1)}`;
  field.id = id;
  field.name = at.name;
  const check = () => field.setCustomValidity(field.value.trim() === "" ? "" : wrong(field.value.trim()));
  field.addEventListener("input", check);
  check();
  const name = at.label || spoken(at.name);
  const help = hint && el("p", { class: "help", id: `${id}-help` }, hint);
  if (help) field.setAttribute("aria-describedby", help.id);
  const title = el("label", { for: id }, plain(name), at.required ? "" : el("span", { class: "optional" }, " (may be left out)"));
  return { node: el("div", { class: "field" }, title, field, help || null), text: () => field.value.trim() };
}

const scalar = (it) => (it === null || it === undefined || typeof it === "object" ? "" : String(it));
const TAKEN = "As it was asked.";

function text(schema, at, format) {
  const free = !format && !textual(schema).pattern && !textual(schema).maxLength;
  // What people write themselves is not suggested to them, unless it has to be there.
  const known = free && !at.required ? "" : scalar(at.given);
  const numeric = schema.anyOf?.some((it) => it.type === "integer" || it.type === "number");
  const common = { required: at.required, autocomplete: "off", dir: "auto", class: free ? "free" : "" };
  const field = free
    ? el("textarea", { ...common, rows: 1 })
    : el("input", { ...common, type: format === "date" ? "date" : "text", inputmode: numeric && "decimal", spellcheck: "false" });
  field.value = known;
  const made = hinted(field, at, known && TAKEN, (it) => wrongText(schema, it));
  // A free text is sent as it was typed, blanks and all.
  return { node: made.node, read: () => (made.text() === "" ? undefined : JSON.stringify(free ? field.value : made.text())) };
}

function number(schema, at) {
  const field = el("input", { type: "text", inputmode: "numeric", required: at.required, autocomplete: "off" });
  field.value = scalar(at.given);
  const made = hinted(field, at, field.value && TAKEN, (it) => wrongInteger(schema, it));
  return { node: made.node, read: () => (made.text() === "" ? undefined : String(BigInt(made.text()))) };
}

function truth(at) {
  const field = el("select", { required: at.required }, ["", "Yes", "No"].map((it) => el("option", { value: it }, it || "—")));
  const made = hinted(field, at);
  return { node: made.node, read: () => ({ Yes: "true", No: "false" })[made.text()] };
}

/** In the reader's own zone. What is left as it stood goes as it came: an input has no fractions of a millisecond. */
function time(at) {
  const origin = scalar(at.given) || (at.required ? new Date().toISOString() : "");
  const field = el("input", { type: "datetime-local", step: 1, required: at.required });
  field.value = local(origin);
  const first = field.value;
  const hint = at.given ? TAKEN : origin && "Now, in your time zone; change it if it was another time.";
  const made = hinted(field, at, hint);
  const read = () => {
    if (made.text() === "") return undefined;
    return JSON.stringify(made.text() === first ? origin : new Date(made.text()).toISOString());
  };
  return { node: made.node, read };
}

function local(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
