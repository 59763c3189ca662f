// The HTTP API of the worker that served this page, and nothing else.

import { askForToken, session } from "./session.js";

const GIVE_UP_MS = 20_000; // above the worker's own limit, so that its word is heard where it has one
let skewMs = 0;

/** What the worker's clock says: ages and deadlines are of its time. */
export const now = () => Date.now() + skewMs;

/** What the worker did not do, and its word for it; `status` 0: there was no answer at all. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? problem?.title ?? "the worker cannot be reached");
    this.status = status;
    this.problem = problem ?? {};
    this.outcome = this.problem.outcome ?? (status ? "refused" : "unreachable");
  }
}

export function headers() {
  const found = { "x-tenant-id": latin(session.tenant) };
  return session.token ? { ...found, Authorization: `Bearer ${latin(session.token)}` } : found;
}

// fetch takes bytes for a header, one a character; the worker reads them as UTF-8.
const latin = (text) => String.fromCharCode(...new TextEncoder().encode(text));

/** `body`: JSON text. -> {body, next: the cursor behind a page}. Throws Refusal. */
export async function ask(method, path, body) {
  const sent = body === undefined ? {} : { "Content-Type": "application/json" };
  let response, text;
  try {
    const signal = AbortSignal.timeout(GIVE_UP_MS);
    const rest = { cache: "no-store", credentials: "omit", redirect: "error", signal };
    response = await fetch(path, { method, headers: { ...headers(), ...sent }, body, ...rest });
    text = await response.text();
  } catch {
    throw new Refusal(0);
  }
  measure(response.headers.get("Date"));
  const found = readJson(text);
  if (response.ok) return { body: found, next: response.headers.get("x-next-cursor") };
  if (response.status === 401) askForToken();
  throw new Refusal(response.status, found);
}

// A header has whole seconds: less than two are no difference.
function measure(date) {
  const found = Date.parse(date ?? "") - Date.now();
  if (Number.isFinite(found)) skewMs = Math.abs(found) < 2_000 ? 0 : found;
}

/** JSON in which a number that would be rounded here is the text that was sent: nobody approves another amount. */
function readJson(text) {
  const exact = (_, value, context) =>
    typeof value === "number" && digits(context?.source ?? "") > DIGITS_MAX ? context.source : value;
  try {
    return JSON.parse(text, exact);
  } catch {
    return null;
  }
}

const DIGITS_MAX = 15; // as many as a number of JavaScript holds in any case
const digits = (source) => source.replace(/e.*$/i, "").replace(/\D/g, "").replace(/^0+/, "").length;
