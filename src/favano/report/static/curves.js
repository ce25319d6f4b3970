// Mean curves over seeds with their bands, against any axis.
"use strict";

const AXES = {
  time: "simulated time",
  server_steps: "server steps",
  local_steps: "local steps",
  bits: "bits sent, up and down",
  energy: "energy of all clients, joules",
};

const percent = (value) => `${grouped(value, 1)} %`;

/** How the values of each kind of measure are said. */
const KINDS = {
  percent: { say: percent, most: 100 },
  fixed: { say: (value) => grouped(value, 3) },
  significant: { say: significant },
  logarithmic: { say: significant, log: true },
  count: { say: short },
};

/** Lowest and highest value of a measure over all settings, so that plots can be compared. */
const extent = (settings, measure, shown) => {
  let [low, high] = [Infinity, -Infinity];
  for (const result of settings.flatMap((setting) => setting.results)) {
    if (!shown.has(result.method)) continue;
    const band = result.y[measure] ?? { mean: [], low: [], high: [] }; // of another problem
    for (const value of [...band.mean, ...band.low, ...band.high]) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low > high ? [1, 10] : [low, high]; // nothing to draw, so any axis will do
};

/** The vertical axis of a measure over a range of pixels. */
const verticalAxis = (page, measure, shown, range) => {
  const { log, most } = KINDS[page.measures[measure].kind];
  const [low, high] = extent(page.settings, measure, shown);
  if (log) {
    const domain = [low * 0.9, Math.max(high, low * 10) * 1.1];
    return { ticks: decades(...domain), scale: logarithmic(domain, range), format: short };
  }
  const found = ticks(Math.min(0, low), Math.min(high, most ?? high), 5);
  return { ticks: found, scale: linear([found[0], found.at(-1)], range), format: short };
};

/** The horizontal axis over a range of pixels; a logarithmic one starts at the first positive value. */
const horizontalAxis = (drawn, axis, log, range) => {
  const values = drawn.flatMap((result) => result.x[axis]);
  const most = values.reduce((high, value) => Math.max(high, value), 0) || 1;
  const count = range[1] - range[0] < 420 ? 4 : 7;
  if (!log) {
    const found = ticks(0, most, count).filter((value) => value <= most * 1.0001);
    return { ticks: found, scale: linear([0, most], range), format: short, title: AXES[axis] };
  }
  const least = values.reduce((low, value) => (value > 0 ? Math.min(low, value) : low), most);
  const domain = [least, Math.max(most, least * 2)];
  return { ticks: decades(...domain), scale: logarithmic(domain, range), format: short, title: `${AXES[axis]}, logarithmic` };
};

/** A path through the values, interrupted where one is null. */
const trace = (xs, ys) => {
  let path = "";
  let pen = "M";
  xs.forEach((x, index) => {
    if (ys[index] === null) pen = "M";
    else {
      path += `${pen}${x.toFixed(1)} ${ys[index].toFixed(1)}`;
      pen = "L";
    }
  });
  return path;
};

const bandPath = (xs, low, high) => {
  const there = xs.map((_, index) => index).filter((index) => low[index] !== null);
  if (there.length < 2) return "";
  const up = there.map((index) => `${xs[index].toFixed(1)} ${high[index].toFixed(1)}`);
  const down = there.reverse().map((index) => `${xs[index].toFixed(1)} ${low[index].toFixed(1)}`);
  return `M${up.join("L")}L${down.join("L")}Z`;
};

/** Labels beside the ends of lines, moved apart where they would overlap. */
const endLabels = (ends, box) => {
  const gap = 16;
  const late = ends.filter((end) => end.x > box.right - 90).map((end) => ({ ...end, x: box.right }));
  const early = ends.filter((end) => end.x <= box.right - 90);
  return [late, early].flatMap((column) => {
    column.sort((a, b) => a.y - b.y);
    column.forEach((label, index) => {
      if (index > 0) label.y = Math.max(label.y, column[index - 1].y + gap);
    });
    let limit = box.bottom - 8;
    for (const label of column.toReversed()) {
      label.y = Math.min(label.y, limit);
      limit = label.y - gap;
    }
    return column.map(({ x, y, look, title }) => shape("text", { class: `label ${look}`, x: x + 10, y: y + 4 }, title));
  });
};

/** Index of the last value not above x in a sorted list. */
const lastUpTo = (values, x) => {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x * (1 + 1e-9)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
};

const drawCurves = (figure, page, setting, { axis, measure, shown, log: logAxis }) => {
  const width = figure.clientWidth;
  const height = page.settings.length > 1 || width < 600 ? 300 : 420;
  const drawn = setting.results.filter((result) => shown.has(result.method) && result.seeds.length > 0 && measure in result.y && axis in result.x);
  const longest = Math.max(0, ...drawn.map((result) => page.methods[result.method].title.length));
  const labelled = longest * 7.6 + 18 <= width * 0.27;
  const box = { left: 46, right: width - (labelled ? longest * 7.6 + 18 : 12), top: 10, bottom: height - 46 };
  const vertical = verticalAxis(page, measure, shown, [box.bottom, box.top]);
  const horizontal = horizontalAxis(drawn, axis, logAxis, [box.left, box.right]);
  const svg = canvas(width, height);
  svg.append(axes(box, horizontal, vertical));
  const clip = `clip-${figure.dataset.setting}`;
  svg.append(
    shape("clipPath", { id: clip }, shape("rect", { x: box.left, y: box.top - 4, width: box.right - box.left + 4, height: box.bottom - box.top + 4 })),
  );
  const bands = shape("g", { class: "bands", "clip-path": `url(#${clip})` });
  const lines = shape("g", { class: "lines", "clip-path": `url(#${clip})` });
  const ends = [];
  const series = drawn.map((result) => {
    const method = page.methods[result.method];
    const { look } = method;
    const xs = result.x[axis].map(horizontal.scale);
    const band = result.y[measure];
    const high = (values) => values.map((value, index) => (value === null || !Number.isFinite(xs[index]) ? null : vertical.scale(value)));
    const ys = high(band.mean);
    bands.append(shape("path", { class: look, d: bandPath(xs, high(band.low), high(band.high)) }));
    const line = shape("g", { class: look }, shape("path", { class: "line", d: trace(xs, ys) }));
    const last = ys.findLastIndex((y) => y !== null);
    for (let part = 0; part < 5; part += 1) {
      const index = Math.round(((part + ((result.method % 4) + 1) / 5) / 5) * last);
      if (last >= 0 && ys[index] !== null) {
        line.append(shape("path", { class: "mark", d: method.mark, transform: `translate(${xs[index].toFixed(1)} ${ys[index].toFixed(1)})` }));
      }
    }
    lines.append(line);
    if (labelled && last >= 0) ends.push({ x: xs[last], y: ys[last], look, title: method.title });
    return { result, method, look, xs, ys, band };
  });
  svg.append(bands, lines, ...endLabels(ends, box));

  const longestRun = series.reduce((best, one) => (best && best.xs.at(-1) >= one.xs.at(-1) ? best : one), null);
  const values = longestRun ? [...new Set(longestRun.result.x[axis])].filter((value) => !logAxis || value > 0) : [];
  const { name, kind } = page.measures[measure];
  const { say, log } = KINDS[kind];
  const tell = (stop) => {
    const rows = [];
    const points = [];
    for (const { result, method, look, xs, ys, band } of series) {
      const index = lastUpTo(result.x[axis], values[stop]);
      if (index < 0 || ys[index] === null) continue;
      const spread = !log && band.high[index] !== null ? ` ± ${say(band.high[index] - band.mean[index]).replace(" %", "")}` : "";
      const over = values[stop] > result.x[axis].at(-1) * (1 + 1e-9);
      const few = result.seeds[index] < Math.max(...result.seeds) ? `, ${result.seeds[index]} of its seeds` : "";
      const note = over ? ` (ended at ${short(result.x[axis].at(-1))})` : few;
      rows.push({ look, title: method.title, value: `${say(band.mean[index])}${spread}${note}`, height: ys[index] });
      if (!over) points.push([xs[index], ys[index], look]);
    }
    rows.sort((a, b) => a.height - b.height);
    return { head: `${AXES[axis].split(",")[0]} ${short(values[stop])}`, rows, points };
  };
  const drawing = { stops: values.map(horizontal.scale), tell, span: [box.top, box.bottom] };
  const place = setting.title ? `, ${setting.title}` : "";
  const final = series.map(({ method, band }) => `${method.title} ${band.mean.at(-1) === null ? "no value" : say(band.mean.at(-1))}`);
  show(figure, svg, drawing, `${name}, against ${AXES[axis]}${place}. At the end: ${final.join(", ") || "nothing shown"}.`);
};
