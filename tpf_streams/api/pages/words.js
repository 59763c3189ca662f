// What people are told: of outcomes, of time.

import { now } from "./api.js";

/** What became of an answer (the outcomes of a completion): the first word, what it means, and whether it is good. */
const OUTCOMES = {
  admitted: ["Recorded.", "Your answer counts, and the work goes on.", true],
  duplicate: ["Recorded already.", "The same answer had been given before; it counts once, and stands.", true],
  held: ["Received.", "It is decided as soon as the work itself is there.", true],
  conflict: ["Somebody was faster.", "Another answer had been recorded before yours. That one stands; yours does not count."],
  late: ["Too late.", "The deadline had passed when your answer came. It does not count."],
  terminal: ["Ended already.", "This was cancelled, or it failed, before your answer came. It does not count."],
  not_found: ["Not here.", "There is nothing of that id, or no longer."],
  tenant_mismatch: ["Not here.", "There is nothing of that id for this tenant."],
  resume_token_rejected: ["Token refused.", "The resume token is missing, or not the one of this work. Nothing was recorded."],
  identity_mismatch: ["Refused.", "The ids name different work. Nothing was recorded."],
  invalid_payload: ["Not taken.", "The answer does not fit what is expected. Nothing was recorded; change it and send it again."],
  invalid_envelope: ["Not taken.", "The answer cannot be read. Nothing was recorded."],
  payload_too_large: ["Too large.", "The answer is larger than may be. Nothing was recorded; shorten it and send it again."],
  unreachable: ["No answer.", "The worker cannot be reached. Your answer may have been recorded: send it again, it counts once."],
  undecided: ["No outcome yet.", "Your answer may have been recorded: send it again, it counts once."],
};
const BUSY = ["Not now.", "The worker cannot answer just now. Send it again in a moment; it counts once."];
const OTHER = ["Refused.", "Nothing was recorded."];
/** After these an answer may be sent again from the same form. */
const AGAIN = new Set(["resume_token_rejected", "invalid_payload", "invalid_envelope", "payload_too_large"]);

/** Of an answer that was sent: {title, text, good, final}. */
export function toldOf(outcome, status = 200) {
  const [title, text, good = false] = OUTCOMES[outcome] ?? (status === 503 ? BUSY : status >= 500 ? OUTCOMES.undecided : OTHER);
  const final = good || (status >= 400 && status < 500 && status !== 401 && status !== 408 && !AGAIN.has(outcome));
  return { title, text, good, final };
}

/** How work ended that was open on this page: by its status. */
export const ENDS = {
  COMPLETED: ["Somebody was faster.", "This has been answered meanwhile."],
  CANCELLED: ["Cancelled.", "This has been cancelled meanwhile."],
  TIMED_OUT: ["Too late.", "The deadline has passed without an answer."],
  FAILED: ["Failed.", "This has failed meanwhile."],
};

/** What keeps a list or a page from being shown. */
export function whyNot(refusal) {
  if (refusal.status === 401) return "The worker wants an access token, or does not take this one: give it under “You”.";
  if (refusal.status === 0) return "The worker cannot be reached. This page tries again by itself.";
  if (refusal.status === 503) return "The worker is not ready. This page tries again by itself.";
  return `The worker refused: ${refusal.message}`;
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]];

/** Two units at most: `3 d 4 h`, `12 s`. */
export function span(ms) {
  const parts = [];
  for (const [name, size] of UNITS) {
    const count = Math.floor(ms / size);
    if (count) parts.push(`${count} ${name}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
    ms -= count * size;
  }
  return parts.join(" ") || "0 s";
}

export const age = (it) => span(Math.max(0, now() - it.createdAtEpochMs));

export function due(it) {
  const left = it.deadlineEpochMs - now();
  return left > 0 ? `in ${span(left)}` : `${span(-left)} ago`;
}

export const urgent = (it) => it.deadlineEpochMs - now() < 300_000;

export const moment = (ms) => new Date(ms).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
