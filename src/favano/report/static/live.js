// A page of runs that go on fetches itself again, and shows what is new.
"use strict";

const LIVE_PERIOD = 2000; // milliseconds

/** Follow the runs; `update` draws what has changed. */
const follow = (update) => {
  const line = document.getElementById("live");
  if (!line) return;
  const { report } = line.dataset;
  let seen = "";
  const look = async () => {
    try {
      const answer = await fetch("page.json", { cache: "no-store" });
      const { page } = await answer.json();
      if (page !== seen) {
        seen = page;
        renew(new DOMParser().parseFromString(page, "text/html"));
        update();
      }
      setTimeout(look, LIVE_PERIOD);
    } catch {
      const ended = `The runs have ended, or are out of reach. Their report: ${report}`;
      document.getElementById("live").textContent = ended;
      document.getElementById("said").textContent = ended;
    }
  };
  setTimeout(look, LIVE_PERIOD);
};

/** Take over what changes while runs go on; controls keep what was chosen. */
const renew = (fresh) => {
  const chosen = new Map([...document.querySelectorAll("#curves .entries input, #reference")].map((input) => [keyOf(input), input]));
  const focused = keyOf(document.activeElement);
  for (const part of ["#top", "#missing", "#final", "#curves .entries"]) {
    document.querySelector(part).replaceChildren(...fresh.querySelector(part).childNodes);
  }
  document.getElementById("results").textContent = fresh.getElementById("results").textContent;
  for (const control of document.querySelectorAll("#final .controls:not([data-useless])")) control.hidden = false;
  for (const input of document.querySelectorAll("#curves .entries input, #reference")) {
    const before = chosen.get(keyOf(input));
    if (before?.tagName === "SELECT") input.value = before.value || input.value;
    else if (before && !before.disabled && !input.disabled) input.checked = before.checked;
    if (focused && keyOf(input) === focused) input.focus();
  }
};

const keyOf = (input) => input?.id || input?.dataset?.method;
