// Who this page speaks for. Kept in this tab alone, and forgotten with it.

const NAMES = ["actor", "tenant", "token"];
const PREFIX = "tpf-streams.";

export const session = {};

const details = document.getElementById("who");
const form = document.getElementById("who-form");
const notice = document.getElementById("notice");

function read() {
  for (const name of NAMES) session[name] = sessionStorage.getItem(PREFIX + name) ?? "";
  session.tenant ||= document.querySelector("meta[name=tenant]").content;
}

/** Says what stands in the way of the whole page; nothing: all is well again. */
export function notify(text) {
  notice.hidden = !text;
  if (notice.textContent !== text) notice.textContent = text;
}

/** The worker wants to know who asks. */
export function askForToken() {
  notify("The worker wants an access token, or does not take this one: give it under “You”.");
  if (details.open) return;
  details.open = true;
  form.elements.token.focus();
}

/** `changed`: called when somebody else is asking from now on. */
export function begin(changed) {
  read();
  for (const name of NAMES) form.elements[name].value = session[name];
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    for (const name of NAMES) sessionStorage.setItem(PREFIX + name, form.elements[name].value.trim());
    read();
    details.open = false;
    details.firstElementChild.focus();
    notify("");
    changed();
  });
}
