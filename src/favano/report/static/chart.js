// A plot that can be read by pointer, touch, keyboard and screen reader.
//
// A drawing is { stops, tell, span }: the horizontal places with values, in the order of the arrow
// keys, and the values at each: { head, rows: [{ look, title, value }], points }.
"use strict";

const drawings = new WeakMap();

/** The stage of a figure. It is kept when the figure is redrawn, so that keyboard focus stays. */
const stageOf = (figure) => {
  const found = figure.querySelector(".stage");
  if (found) return found;
  const slider = tag("input", { type: "range", class: "reader", min: 0, value: 0, step: 1 });
  const stage = tag("div", { class: "stage" }, slider, tag("div", { class: "readout", "aria-hidden": "true", hidden: "" }));
  figure.append(stage);
  const under = (event) => {
    const place = event.clientX - stage.getBoundingClientRect().left;
    const { stops } = drawings.get(figure);
    let best = 0;
    stops.forEach((stop, index) => {
      if (Math.abs(stop - place) < Math.abs(stops[best] - place)) best = index;
    });
    read(figure, best);
  };
  stage.addEventListener("pointermove", under);
  stage.addEventListener("pointerdown", under);
  stage.addEventListener("pointerleave", () => unread(figure));
  slider.addEventListener("input", () => read(figure, Number(slider.value)));
  slider.addEventListener("focus", () => read(figure, Number(slider.value)));
  slider.addEventListener("blur", () => unread(figure));
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Escape") unread(figure);
  });
  return stage;
};

/** Replace the drawing on the stage. */
const show = (figure, svg, drawing, label) => {
  const stage = stageOf(figure);
  stage.querySelector("svg")?.remove();
  stage.prepend(svg);
  svg.append(shape("g", { class: "guide" }));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  drawings.set(figure, drawing);
  const slider = stage.querySelector(".reader");
  slider.max = Math.max(0, drawing.stops.length - 1);
  slider.disabled = drawing.stops.length === 0;
  slider.setAttribute("aria-label", `Read the plot: ${label}`);
  if (document.activeElement === slider) read(figure, Number(slider.value));
  else {
    slider.value = slider.max;
    unread(figure);
    slider.setAttribute("aria-valuetext", spoken(drawing, Number(slider.max)));
  }
};

const spoken = (drawing, index) => {
  if (drawing.stops.length === 0) return "nothing to read";
  const { head, rows } = drawing.tell(index);
  return `${head}: ${rows.map((row) => `${row.title} ${row.value}`).join(", ")}`;
};

const read = (figure, index) => {
  const drawing = drawings.get(figure);
  if (!drawing || drawing.stops.length === 0) return;
  const { head, rows, points } = drawing.tell(index);
  const place = drawing.stops[index];
  const guide = figure.querySelector(".guide");
  const [top, bottom] = drawing.span;
  guide.replaceChildren(
    shape("path", { class: "hair", d: `M${place} ${top}V${bottom}` }),
    ...points.map(([x, y, look]) => shape("circle", { class: `point ${look}`, cx: x, cy: y, r: 4.5 })),
  );
  const slider = figure.querySelector(".reader");
  slider.value = index;
  slider.setAttribute("aria-valuetext", spoken(drawing, index));
  const readout = figure.querySelector(".readout");
  readout.replaceChildren(
    tag("p", {}, head),
    ...rows.map((row) => tag("p", { class: `row ${row.look}` }, tag("i"), tag("span", {}, row.title), tag("b", {}, row.value))),
  );
  readout.hidden = false;
  const width = figure.querySelector(".stage").clientWidth;
  const beside = place + 14 + readout.offsetWidth <= width ? place + 14 : place - 14 - readout.offsetWidth;
  readout.style.transform = `translate(${Math.max(0, Math.min(beside, width - readout.offsetWidth))}px, ${top + 4}px)`;
};

const unread = (figure) => {
  const slider = figure.querySelector(".reader");
  if (document.activeElement === slider && slider.matches(":focus-visible")) return;
  figure.querySelector(".guide")?.replaceChildren();
  figure.querySelector(".readout").hidden = true;
};

/** Axes with their labels, and horizontal grid lines. */
const axes = (box, horizontal, vertical) => {
  const { left, right, top, bottom } = box;
  const drawn = shape("g", { class: "axes" });
  for (const value of vertical.ticks) {
    const y = vertical.scale(value);
    drawn.append(
      shape("path", { class: "grid", d: `M${left} ${y}H${right}` }),
      shape("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, vertical.format(value)),
    );
  }
  for (const value of horizontal.ticks) {
    const x = horizontal.scale(value);
    drawn.append(
      shape("path", { class: "tick", d: `M${x} ${bottom}v5` }),
      shape("text", { x, y: bottom + 19, "text-anchor": "middle" }, horizontal.format(value)),
    );
  }
  drawn.append(shape("path", { class: "base", d: `M${left} ${bottom}H${right}` }));
  if (horizontal.title) {
    drawn.append(shape("text", { class: "title", x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, horizontal.title));
  }
  return drawn;
};

const canvas = (width, height) => shape("svg", { viewBox: `0 0 ${width} ${height}`, height, width });
