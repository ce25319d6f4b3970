// Dragging across a plot of curves chooses a range; a double click shows the whole run again.
"use strict";

const LEAST_DRAG = 8; // pixels: less is a click

/** A value with as many digits as a range of this width deserves. */
const rounded = (value, width) => {
  const step = 10 ** Math.floor(Math.log10(width / 200));
  return Number((Math.round(value / step) * step).toPrecision(12));
};

/** Call `choose` with a range, or null, when one is dragged in a figure. */
const dragToZoom = (figure, choose) => {
  const stage = stageOf(figure);
  let start = null;
  const place = (event) => {
    const { left, right } = drawings.get(figure).box;
    return Math.min(right, Math.max(left, event.clientX - stage.getBoundingClientRect().left));
  };
  const end = () => {
    start = null;
    figure.querySelector(".selection")?.remove();
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return; // a finger reads and scrolls
    start = place(event);
    stage.setPointerCapture(event.pointerId);
    event.preventDefault(); // no text is selected
  });
  stage.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [top, bottom] = drawings.get(figure).span;
    const [from, to] = [start, place(event)].sort((a, b) => a - b);
    figure.querySelector(".selection")?.remove();
    stage.querySelector("svg").append(shape("rect", { class: "selection", x: from, y: top, width: to - from, height: bottom - top }));
  });
  stage.addEventListener("pointerup", (event) => {
    if (start === null) return;
    const [from, to] = [start, place(event)].sort((a, b) => a - b);
    const { value } = drawings.get(figure);
    end();
    if (to - from < LEAST_DRAG) return;
    const range = [value(from), value(to)];
    choose(range.map((edge) => rounded(edge, range[1] - range[0])));
  });
  stage.addEventListener("pointercancel", end);
  stage.addEventListener("dblclick", () => choose(null));
};
