// What is chosen on the page, as the fragment of its address: only what was changed.
"use strict";

const CHOICES = "#curves .controls input:not([data-method]), #curves .controls select, #reference, #place";

/** The name of a control in the address. */
const nameOf = (control) => control.name || control.id || `key.${control.dataset.key}`;

/** What was chosen, as `name=value&...`; empty if nothing was. */
const stateOf = () => {
  const state = new URLSearchParams();
  for (const control of document.querySelectorAll(CHOICES)) {
    const name = nameOf(control);
    if (control.type === "radio") {
      if (control.checked && !control.defaultChecked) state.set(name, control.value);
    } else if (control.type === "checkbox") {
      if (control.checked) state.set(name, "1");
    } else if (control.tagName === "SELECT" ? control.selectedIndex > 0 : control.value) state.set(name, control.value);
  }
  for (const box of document.querySelectorAll("input[data-method]:enabled:not(:checked)")) state.append("hide", methodOf(box));
  return state.toString();
};

const methodOf = (box) => box.parentElement.querySelector("span").firstChild.textContent.trim();

/** Choose what an address says; what it does not name, or the page does not know, is as at first. */
const applyState = (text) => {
  const state = new URLSearchParams(text);
  for (const control of document.querySelectorAll(CHOICES)) {
    const value = state.get(nameOf(control));
    if (control.type === "radio") control.checked = value === control.value || (control.defaultChecked && !known(control.name, value));
    else if (control.type === "checkbox") control.checked = value === "1";
    else if (control.tagName === "SELECT") control.selectedIndex = Math.max(0, [...control.options].findIndex((option) => option.value === value));
    else control.value = value ?? "";
  }
  const hidden = new Set(state.getAll("hide"));
  for (const box of document.querySelectorAll("input[data-method]:enabled")) box.checked = !hidden.has(methodOf(box));
};

const known = (name, value) => [...document.querySelectorAll(`input[name=${name}]`)].some((radio) => radio.value === value);

/** Keep what is chosen in the address, without a new entry in the history of the browser. */
const keepState = () => {
  const state = stateOf();
  try {
    history.replaceState(null, "", `${location.pathname}${location.search}${state ? `#${state}` : ""}`);
  } catch {
    // Some browsers refuse this for files; the button that copies the link still works.
  }
};

/** The address of this page with what is chosen. */
const linkOf = () => `${location.href.split("#")[0]}#${stateOf()}`;
