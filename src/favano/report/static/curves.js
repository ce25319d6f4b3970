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

/** Whether a value is in the range that is shown; without one, everything is. */
const within = (range, value) => !range || (value >= range[0] && value <= range[1]);

/** Lowest and highest value that is drawn in any setting, so that plots can be compared. */
const extent = (settings, { axis, measure, shown, range, seeds }) => {
  let [low, high] = [Infinity, -Infinity];
  const include = (xs, values) => {
    values.forEach((value, index) => {
      if (value === null || !within(range, xs[index])) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    });
  };
  for (const result of settings.flatMap((setting) => setting.results).filter(shown)) {
    const band = result.y[measure]; // none of another problem
    if (!band || !result.x[axis]) continue;
    for (const values of [band.mean, band.low, band.high]) include(result.x[axis], values);
    if (seeds) for (const run of result.runs) include(run.x[axis], run.y[measure]);
  }
  return low > high ? [1, 10] : [low, high]; // nothing to draw, so any axis will do
};

/** The vertical axis of a measure over a range of pixels. */
const verticalAxis = (page, choice, pixels) => {
  const { log, most } = KINDS[page.measures[choice.measure].kind];
  const [low, high] = extent(page.settings, choice);
  if (log) {
    const domain = [low * 0.9, Math.max(high, low * (choice.range ? 2 : 10)) * 1.1];
    return { ticks: decades(...domain), scale: logarithmic(domain, pixels), format: short };
  }
  const found = ticks(choice.range ? low : Math.min(0, low), Math.min(high, most ?? high), 5);
  return { ticks: found, scale: linear([found[0], found.at(-1)], pixels), format: short };
};

/** The horizontal axis over a range of pixels; a logarithmic one starts at the first positive value. */
const horizontalAxis = (drawn, { axis, log, range }, pixels) => {
  const values = drawn.flatMap((result) => result.x[axis]);
  const most = values.reduce((high, value) => Math.max(high, value), 0) || 1;
  const count = pixels[1] - pixels[0] < 420 ? 4 : 7;
  if (!log) {
    const [from, to] = range ?? [0, most];
    const found = ticks(from, to, count).filter((value) => value >= from && value <= to + (to - from) * 1e-4);
    const value = linear(pixels, [from, to]);
    return { ticks: found, scale: linear([from, to], pixels), value, format: short, title: AXES[axis] };
  }
  const least = values.reduce((low, value) => (value > 0 ? Math.min(low, value) : low), most);
  const from = range && range[0] > 0 ? range[0] : least;
  const domain = [from, Math.max(range ? range[1] : most, range ? from * 1.01 : from * 2)];
  const power = linear(pixels, domain.map(Math.log));
  return { ticks: decades(...domain), scale: logarithmic(domain, pixels), value: (place) => Math.exp(power(place)), format: short, title: `${AXES[axis]}, logarithmic` };
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

const drawCurves = (figure, page, setting, choice) => {
  const { axis, measure, shown, range, seeds, log: logAxis } = choice;
  const width = figure.clientWidth;
  const height = page.settings.length > 1 || width < 600 ? 300 : 420;
  const drawn = setting.results.filter((result) => shown(result) && result.seeds.length > 0 && measure in result.y && axis in result.x);
  const longest = Math.max(0, ...drawn.map((result) => page.methods[result.method].title.length));
  const labelled = longest * 7.6 + 18 <= width * 0.27;
  const box = { left: 46, right: width - (labelled ? longest * 7.6 + 18 : 12), top: 10, bottom: height - 46 };
  const vertical = verticalAxis(page, choice, [box.bottom, box.top]);
  const horizontal = horizontalAxis(drawn, choice, [box.left, box.right]);
  const svg = canvas(width, height);
  svg.append(axes(box, horizontal, vertical));
  const clip = `clip-${figure.dataset.setting}`;
  svg.append(
    shape("clipPath", { id: clip }, shape("rect", { x: box.left, y: box.top - 4, width: box.right - box.left + 4, height: box.bottom - box.top + 4 })),
  );
  const bands = shape("g", { class: "bands", "clip-path": `url(#${clip})` });
  const lines = shape("g", { class: "lines", "clip-path": `url(#${clip})` });
  const single = shape("g", { class: "seeds", "clip-path": `url(#${clip})` });
  const ends = [];
  const series = drawn.map((result) => {
    const method = page.methods[result.method];
    const { look } = method;
    const xs = result.x[axis].map(horizontal.scale);
    const band = result.y[measure];
    const high = (values) => values.map((value, index) => (value === null || !Number.isFinite(xs[index]) ? null : vertical.scale(value)));
    const ys = high(band.mean);
    bands.append(shape("path", { class: look, d: bandPath(xs, high(band.low), high(band.high)) }));
    for (const run of seeds ? result.runs : []) {
      const across = run.x[axis].map(horizontal.scale);
      const up = run.y[measure].map((value, index) => (value === null || !Number.isFinite(across[index]) ? null : vertical.scale(value)));
      single.append(shape("path", { class: look, d: trace(across, up) }));
    }
    const line = shape("g", { class: look }, shape("path", { class: "line", d: trace(xs, ys) }));
    const visible = (index) => ys[index] !== null && within(range, result.x[axis][index]);
    const first = ys.findIndex((_, index) => visible(index));
    const last = ys.findLastIndex((_, index) => visible(index));
    for (let part = 0; part < 5; part += 1) {
      const index = first + Math.round(((part + ((result.method % 4) + 1) / 5) / 5) * (last - first));
      if (last >= 0 && ys[index] !== null) {
        line.append(shape("path", { class: "mark", d: method.mark, transform: `translate(${xs[index].toFixed(1)} ${ys[index].toFixed(1)})` }));
      }
    }
    lines.append(line);
    if (labelled && last >= 0) ends.push({ x: xs[last], y: ys[last], look, title: method.title });
    return { result, method, look, xs, ys, band };
  });
  svg.append(bands, single, lines, ...endLabels(ends, box));

  const longestRun = series.reduce((best, one) => (best && best.xs.at(-1) >= one.xs.at(-1) ? best : one), null);
  const values = longestRun ? [...new Set(longestRun.result.x[axis])].filter((value) => (!logAxis || value > 0) && within(range, value)) : [];
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
      if (!over && within(range, result.x[axis][index])) points.push([xs[index], ys[index], look]);
    }
    rows.sort((a, b) => a.height - b.height);
    return { head: `${AXES[axis].split(",")[0]} ${short(values[stop])}`, rows, points };
  };
  const drawing = { stops: values.map(horizontal.scale), tell, span: [box.top, box.bottom], box, value: horizontal.value };
  const place = setting.title ? `, ${setting.title}` : "";
  const final = series.map(({ method, band }) => `${method.title} ${band.mean.at(-1) === null ? "no value" : say(band.mean.at(-1))}`);
  show(figure, svg, drawing, `${name}, against ${AXES[axis]}${place}${range ? `, from ${short(range[0])} to ${short(range[1])}` : ""}. At the end: ${final.join(", ") || "nothing shown"}.`);
};
