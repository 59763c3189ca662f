// Hears at once that pending work has changed. By fetch: an EventSource cannot say for whom it asks.

import { headers } from "./api.js";
import { askForToken } from "./session.js";

const AGAIN_MS = [1_000, 2_000, 5_000, 15_000];
const SILENT_MS = 45_000; // the worker says something every 15 s; a line that is silent for longer has gone

/** Calls `changed` after each change and each new connection, `state` with whether it hears. -> to be called to end it. */
export function listen(path, changed, state) {
  let ended = false;
  let line = new AbortController();

  async function hear() {
    for (let failures = 0; !ended; failures += 1) {
      line = new AbortController();
      try {
        const response = await fetch(path, { headers: headers(), cache: "no-store", credentials: "omit", signal: line.signal });
        if (response.status === 401) askForToken();
        if (response.ok) {
          failures = -1;
          state(true);
          changed();
          await drain(response.body.getReader());
        }
      } catch {
        // The line broke, or was never there: it is tried again below.
      }
      if (ended) return;
      state(false);
      await new Promise((done) => setTimeout(done, AGAIN_MS[Math.min(Math.max(failures, 0), AGAIN_MS.length - 1)]));
    }
  }

  async function drain(reader) {
    const decoder = new TextDecoder();
    let silent = setTimeout(() => line.abort(), SILENT_MS);
    try {
      for (let tail = ""; ; ) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silent);
        silent = setTimeout(() => line.abort(), SILENT_MS);
        const blocks = (tail + decoder.decode(value, { stream: true })).split("\n\n");
        tail = blocks.pop();
        if (blocks.some((it) => it.startsWith("event:"))) changed();
      }
    } finally {
      clearTimeout(silent);
    }
  }

  hear();
  return () => {
    ended = true;
    line.abort();
  };
}
