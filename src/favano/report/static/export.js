// What is shown, as a picture or as numbers.
"use strict";

const PAINTED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight"];

/** A copy of a drawing that looks the same without the style sheet of the page. */
const painted = (svg) => {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((drawing) => [...drawing.querySelectorAll("*")]);
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of PAINTED) to[index].setAttribute(name, style.getPropertyValue(name));
    to[index].removeAttribute("class");
  });
  return copy;
};

/** All plots of curves below each other, with their titles and the methods, as one drawing. */
const picture = (figures, title, methods) => {
  const { color, backgroundColor, fontFamily } = getComputedStyle(document.body);
  const drawn = figures.map((figure) => [figure.querySelector("figcaption").textContent, figure.querySelector(".stage > svg")]);
  const width = Math.max(...drawn.map(([, svg]) => Number(svg.getAttribute("width"))));
  const text = (x, y, words, weight = 400) => shape("text", { x, y, fill: color, "font-size": 14, "font-weight": weight }, words);
  const parts = [text(8, 20, title, 600)];
  let [x, y] = [8, 44];
  for (const { title: name, look, mark } of methods) {
    const needed = 72 + name.length * 8;
    if (x > 8 && x + needed > width) [x, y] = [8, y + 22];
    const key = document.querySelector(`.swatch.${look.split(" ").join(".")}`);
    const sample = painted(key);
    parts.push(shape("g", { transform: `translate(${x + 22} ${y - 5})` }, ...sample.childNodes), text(x + 52, y, name));
    x += needed;
  }
  y += 16;
  for (const [caption, svg] of drawn) {
    const copy = painted(svg);
    copy.querySelectorAll("g:empty").forEach((nothing) => nothing.remove());
    if (caption) parts.push(text(8, (y += 20), caption));
    parts.push(shape("g", { transform: `translate(0 ${y + 8})` }, ...copy.childNodes));
    y += 8 + Number(svg.getAttribute("height"));
  }
  const whole = canvas(width, y + 8);
  whole.setAttribute("font-family", fontFamily);
  whole.append(shape("rect", { width, height: y + 8, fill: backgroundColor }), ...parts);
  return whole;
};

/** A drawing as pixels, twice as many each way as on the page. */
const pixels = async (svg) => {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const area = document.createElement("canvas");
  [area.width, area.height] = ["width", "height"].map((name) => 2 * Number(svg.getAttribute(name)));
  area.getContext("2d").drawImage(image, 0, 0, area.width, area.height);
  return new Promise((resolve) => area.toBlob(resolve, "image/png"));
};

/** A cell of a CSV file; a text that a spreadsheet would take for a formula is marked as text. */
const cell = (value) => {
  if (typeof value === "number" || value === null || value === undefined) return String(value ?? "");
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** The curves that are shown, one line per point: means with their bands, and single seeds. */
const numbers = (page, { axis, measure, shown, range, seeds }) => {
  const axes = Object.keys(AXES).filter((name) => page.settings.some((setting) => setting.results.some((result) => name in result.x)));
  const lines = [["setting", "method", "seed", "seeds", ...axes, measure, "low", "high"]];
  const add = (setting, method, seed, xs, count, values) => {
    values[0].forEach((_, index) => {
      if (!within(range, xs[axis]?.[index])) return;
      lines.push([setting, method, seed, count(index), ...axes.map((name) => xs[name]?.[index]), ...values.map((column) => column[index])]);
    });
  };
  for (const setting of page.settings) {
    for (const result of setting.results.filter((each) => shown(each) && measure in each.y)) {
      const { title } = page.methods[result.method];
      const { mean, low, high } = result.y[measure];
      add(setting.title, title, "mean", result.x, (index) => result.seeds[index], [mean, low, high]);
      for (const run of seeds ? result.runs : []) {
        const nothing = run.y[measure].map(() => null);
        add(setting.title, title, run.seed, run.x, () => 1, [run.y[measure], nothing, nothing]);
      }
    }
  }
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
};

/** Give the user a file. */
const save = (name, blob) => {
  const link = tag("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
};
