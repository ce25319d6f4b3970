// Elements, numbers and ticks, shared by all plots.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

const fill = (made, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

/** An SVG element; children may be text. */
const shape = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

/** An HTML element; children may be text. */
const tag = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

const grouped = (value, digits = 0) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");

/** Three significant digits, with commas between thousands. */
const significant = (value) =>
  Math.abs(value) >= 1000 ? grouped(value) : String(Number(value.toPrecision(3))).replace("-", "−");

/** A short number for tick labels: 1,500, 20k, 3.5M, 12G. */
const short = (value) => {
  for (const [size, sign] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return `${significant(value / (sign === "k" ? 1e3 : size))}${sign}`;
  }
  return significant(value);
};

/** About `count` round numbers from low to high, the last one at or above high. */
const ticks = (low, high, count, whole = false) => {
  const rough = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  if (whole) step = Math.max(1, Math.round(step));
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: Math.max(1, last - first) + 1 }, (_, index) => (first + index) * step);
};

/** Powers of ten between low and high; if there are few, also 2 and 5 times them. */
const decades = (low, high) => {
  const span = Math.log10(high / low);
  const every = Math.max(1, Math.ceil(span / 6));
  const factors = span < 2.5 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += every) {
    for (const factor of factors) found.push(factor * 10 ** power);
  }
  return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
};

const linear = ([from, to], [start, end]) => (value) => start + ((value - from) / (to - from || 1)) * (end - start);

const logarithmic = ([from, to], range) => {
  const scale = linear([Math.log(from), Math.log(to)], range);
  return (value) => scale(Math.log(value));
};
