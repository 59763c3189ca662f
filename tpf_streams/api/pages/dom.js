// Elements, made of text alone: what comes from outside is never read as markup.

// What a reader cannot see, or what makes him see something else: controls, marks that turn the direction of writing.
// Those that scripts and emoji are spelt with (U+200C, U+200D) stay.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** The text as it can be trusted to be what it looks like. */
export const plain = (text) =>
  String(text).replace(UNSEEN, (it) => `[U+${it.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

/** `attributes`: values as they are set; `on…`: listeners; false, null and undefined: left out. */
export function el(name, attributes = {}, ...children) {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) found.addEventListener(key.slice(2), value);
    else found.setAttribute(key, value === true ? "" : value);
  }
  found.append(...children.flat().filter((it) => it !== null && it !== undefined && it !== false));
  return found;
}

/** Text from outside: a direction of its own, so that it does not turn what stands beside it. */
export const bdi = (text) => el("bdi", {}, plain(text));

/** Only what differs is written: a screen reader repeats what is. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A list of facts; those without a value are left out. */
export function facts(pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, known.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/**
 * The children of `list` are those of `items`, in their order; what is there already stays what it is, so that whoever
 * is in it with the keyboard stays in it. `make(item)` makes a child, `update(child, item)` brings one up to date.
 */
export function keep(list, items, keyOf, make, update) {
  const there = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const wanted = new Set(items.map(keyOf));
  let heir = null;
  for (const [key, child] of there) {
    if (wanted.has(key)) continue;
    if (focused && child.contains(focused)) heir = child.nextElementSibling ?? child.previousElementSibling;
    child.remove();
  }
  let place = list.firstElementChild;
  for (const item of items) {
    const child = there.get(keyOf(item)) ?? made(item, keyOf, make);
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else list.insertBefore(child, place);
  }
  if (!focused || document.activeElement === focused) return;
  const next = list.contains(focused) ? focused : heir?.isConnected && heir.querySelector("a, button");
  (next || list.closest("main")).focus({ preventScroll: true });
}

function made(item, keyOf, make) {
  const child = make(item);
  child.dataset.key = keyOf(item);
  return child;
}
