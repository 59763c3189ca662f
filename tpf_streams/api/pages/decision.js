// One piece of work: what is asked, and the answer that a person gives.

import { ask, Refusal } from "./api.js";
import { bdi, el, facts, setText } from "./dom.js";
import { formOf } from "./form.js";
import { shown } from "./payload.js";
import { session } from "./session.js";
import { age, due, ENDS, moment, toldOf, urgent } from "./words.js";

const ROOT = "/pipeline/interactions";
const schemas = new Map();

async function schemaOf(it) {
  if (!schemas.has(it.completionSchema)) schemas.set(it.completionSchema, (await ask("GET", it.completionSchema)).body);
  return schemas.get(it.completionSchema);
}

/** `changed`: called after what was decided here, with the id. */
export class Decision {
  constructor(pane, changed) {
    this.pane = pane;
    this.changed = changed;
    this.it = null;
    this.busy = this.ended = false;
  }

  close(why = "Choose what to decide.") {
    this.it = this.wanted = null;
    this.pane.replaceChildren(el("p", { class: "none", role: "status" }, why));
  }

  /** Throws Refusal. */
  async open(id) {
    this.wanted = id;
    const it = (await ask("GET", `${ROOT}/${encodeURIComponent(id)}`)).body;
    const schema = ENDS[it.status] ? null : await schemaOf(it);
    if (this.wanted !== id) return; // another was chosen meanwhile
    this.it = it;
    this.busy = this.ended = false;
    this.outcome = el("div", { id: "outcome", class: "outcome", role: "status", "aria-live": "polite", tabindex: "-1" });
    this.title = el("h2", { id: "decision-title", tabindex: "-1" }, bdi(it.step));
    this.age = el("span", {}, age(it));
    this.due = el("span", {}, due(it));
    this.pane.replaceChildren(
      el("p", { class: "back" }, el("a", { href: "#" }, "← Back to the list")),
      this.title,
      this.outcome,
      this.about(),
      el("div", { class: "both" },
        el("section", { "aria-labelledby": "asked-title" }, el("h3", { id: "asked-title" }, "What is asked"), shown(it.requestPayload)),
        schema === null ? null : this.answer(schema)),
    );
    if (schema === null) this.end(it);
    this.title.focus({ preventScroll: true });
    this.pane.scrollIntoView({ block: "nearest" });
  }

  about() {
    const { it } = this;
    return facts([
      ["Waiting for", this.age],
      ["Deadline", el("span", {}, this.due, ` (${moment(it.deadlineEpochMs)})`)],
      ["Assignee", it.assignee && bdi(it.assignee)],
      ["Group", it.group && bdi(it.group)],
      ["Item", it.itemIndex === null ? null : String(it.itemIndex)],
      ["Execution", el("a", { href: `/executions/${encodeURIComponent(it.executionId)}` }, it.executionId)],
    ]);
  }

  answer(schema) {
    const { it } = this;
    const form = formOf(schema, it.requestPayload);
    const token = it.needsToken ? el("input", { name: "resumeToken", required: true, autocomplete: "off", spellcheck: "false" }) : null;
    const named = token && el("label", {}, "Resume token ", token);
    this.fields = el("fieldset", { class: "whole" }, form.node, named, el("button", { class: "main" }, "Send answer"));
    const send = (event) => {
      event.preventDefault();
      this.send(form.read(), token?.value.trim());
    };
    this.cancelling = this.cancelForm();
    return el("section", { "aria-labelledby": "answer-title" },
      el("h3", { id: "answer-title" }, "Your answer"),
      el("form", { id: "answer", onsubmit: send, autocomplete: "off" }, this.fields),
      this.cancelling);
  }

  cancelForm() {
    const reason = el("input", { name: "reason", maxlength: 512, dir: "auto" });
    const send = (event) => {
      event.preventDefault();
      this.cancel(reason.value.trim());
    };
    return el("details", { class: "cancel" }, el("summary", {}, "Cancel this instead"),
      el("p", { class: "help" }, "It ends without an answer, and what waits for it fails."),
      el("form", { onsubmit: send, autocomplete: "off" }, el("label", {}, "Reason ", reason), el("button", { class: "danger" }, "Cancel it")));
  }

  async send(payload, token) {
    if (this.busy) return;
    const { it } = this;
    const named = { interactionId: it.interactionId, actor: session.actor || undefined, resumeToken: token || undefined };
    const body = `${JSON.stringify(named).slice(0, -1)},"responsePayload":${payload}}`;
    await this.work(it, async () => {
      const { body: found } = await ask("POST", `${ROOT}/complete`, body);
      return toldOf(found.outcome);
    }, (refusal) => {
      const told = toldOf(refusal.outcome, refusal.status);
      this.tell(told, ...this.details(refusal));
    });
  }

  async cancel(reason) {
    if (this.busy) return;
    const { it } = this;
    await this.work(it, async () => {
      await ask("POST", `${ROOT}/${encodeURIComponent(it.interactionId)}/cancel`, JSON.stringify(reason ? { reason } : {}));
      return { title: "Cancelled.", text: "It has ended without an answer.", good: true, final: true };
    }, (refusal) => {
      const final = refusal.outcome === "terminal" || refusal.status === 404;
      const text = final ? "It had ended before: somebody was faster." : refusal.message;
      this.tell({ title: "Not cancelled.", text, good: false, final });
    });
  }

  /** `act` and its refusal, told only where this is still shown: another may have been opened meanwhile. */
  async work(it, act, refused) {
    this.busy = true;
    this.fields.disabled = true;
    setText(this.outcome, "Sending…");
    try {
      const told = await act();
      if (this.it === it) this.tell(told);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (this.it === it) refused(error);
    } finally {
      if (this.it === it) {
        this.busy = false;
        this.fields.disabled = this.ended;
        this.outcome.focus({ preventScroll: true });
        this.outcome.scrollIntoView({ block: "nearest" });
      }
      this.changed(it.interactionId);
    }
  }

  details({ problem, message, outcome, status }) {
    const first = problem.responsePayload === undefined ? [] : [el("p", {}, "The answer that stands:"), shown(problem.responsePayload)];
    const who = problem.actor ? [el("p", {}, "It was given by ", bdi(problem.actor), ".")] : [];
    const why = outcome === "invalid_payload" || (status >= 400 && !first.length) ? [el("p", {}, bdi(message))] : [];
    return [...why, ...who, ...first];
  }

  tell({ title, text, good, final }, ...more) {
    this.ended ||= final;
    this.outcome.className = `outcome ${good ? "good" : "bad"}`;
    this.outcome.replaceChildren(el("p", {}, el("strong", {}, title), " ", text), ...more);
    if (!this.ended) return;
    this.outcome.append(el("p", {}, el("a", { href: "#" }, "Back to the list")));
    if (this.cancelling) this.cancelling.hidden = true;
  }

  /** Whether it still waits: what somebody else did is told as soon as it is known here. */
  async check() {
    const { it } = this;
    if (it === null || this.busy || this.ended) return;
    const { body } = await ask("GET", `${ROOT}/${encodeURIComponent(it.interactionId)}`);
    if (this.it === it && !this.busy && !this.ended && ENDS[body.status]) this.end(body);
  }

  end(it) {
    const [title, text] = ENDS[it.status];
    const problem = { actor: it.actor, responsePayload: it.responsePayload ?? undefined };
    this.tell({ title, text, good: false, final: true }, ...this.details({ problem, status: 200 }));
    if (this.fields) this.fields.disabled = true;
  }

  tick() {
    if (this.it === null || this.ended) return;
    setText(this.age, age(this.it));
    setText(this.due, due(this.it));
    this.due.classList.toggle("urgent", urgent(this.it));
  }
}
