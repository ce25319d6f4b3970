// When clients are there, and when they work.
"use strict";

const OUTCOMES = ["used", "not used", "lost", "under way"]; // as records/participation.py has them

/** The time axis of a plot. */
const timeAxis = (begin, end, [left, right]) => {
  const found = ticks(begin, end, right - left < 420 ? 4 : 7).filter((value) => value <= end * 1.0001);
  return { ticks: found, scale: linear([begin, end], [left, right]), format: short, title: AXES.time };
};

/** Paths of a row of digits: for each digit from 1 to 9 its stretches, as strokes along the row. */
const stretches = (digits, scale, y, paths) => {
  let from = 0;
  for (let part = 1; part <= digits.length; part += 1) {
    if (digits[part] === digits[from]) continue;
    if (digits[from] !== "0") paths[digits[from]] += `M${scale(from).toFixed(1)} ${y}H${scale(part).toFixed(1)}`;
    from = part;
  }
};

const drawAvailability = (figure, setting, result) => {
  const { share, client, available, digits, horizon } = result.participation.availability;
  const width = figure.clientWidth;
  const parts = share.length;
  const step = client.length <= 24 ? 14 : 6;
  const box = { left: 54, right: width - 12, top: 24, bottom: 114 };
  const rows = { top: box.bottom + 44, bottom: box.bottom + 44 + step * client.length };
  const scale = linear([0, parts], [box.left, box.right]);
  const height = linear([0, 1], [box.bottom, box.top]);
  const svg = canvas(width, rows.bottom + 46);
  const levels = { ticks: [0, 0.5, 1], scale: height, format: (value) => `${100 * value} %` };
  svg.append(axes(box, { ticks: [], scale: null }, levels));
  const top = share.map((value, part) => `L${scale(part).toFixed(1)} ${height(value).toFixed(1)}H${scale(part + 1).toFixed(1)}`);
  svg.append(
    shape("text", { class: "title", x: box.left, y: 12 }, "clients that are there"),
    shape("path", { class: "area speed-0", d: `M${box.left} ${box.bottom}${top.join("")}V${box.bottom}Z` }),
    shape("text", { class: "title", x: box.left, y: rows.top - 10 }, "a row per client, with its availability"),
  );
  const paths = Object.fromEntries(Array.from({ length: 9 }, (_, digit) => [digit + 1, ""]));
  digits.forEach((row, index) => stretches(row, scale, rows.top + step * (index + 0.5), paths));
  const map = shape("g", { class: "map speed-0" });
  map.append(shape("rect", { class: "away", x: box.left, y: rows.top, width: box.right - box.left, height: rows.bottom - rows.top }));
  for (const [digit, d] of Object.entries(paths)) {
    if (d) map.append(shape("path", { d, "stroke-width": step > 6 ? step - 3 : step, "stroke-opacity": digit / 9 }));
  }
  svg.append(map);
  const every = Math.max(1, Math.ceil(18 / step), Math.round(client.length / 8));
  client.forEach((_, index) => {
    if (index % every) return;
    svg.append(shape("text", { x: box.left - 8, y: rows.top + step * (index + 0.5) + 4, "text-anchor": "end" }, `${Math.round(100 * available[index])} %`));
  });
  svg.append(axes({ ...box, top: rows.top, bottom: rows.bottom }, timeAxis(0, horizon, [box.left, box.right]), { ticks: [] }));
  const tell = (part) => {
    const there = digits.filter((row) => row[part] !== "0").length;
    const said = [["clients there", percent(100 * share[part])], ["of the rows", `${there} of ${client.length}, some of the time`]];
    const time = [part, part + 1].map((edge) => significant((edge / parts) * horizon));
    return { head: `time ${time.join(" to ")}`, rows: said.map(([title, value]) => ({ look: "plain", title, value })), points: [[scale(part + 0.5), height(share[part]), "speed-0"]] };
  };
  const stops = share.map((_, part) => scale(part + 0.5));
  const title = figure.querySelector("figcaption").textContent;
  show(figure, svg, { stops, tell, span: [box.top, rows.bottom] }, `When clients are there. ${title}.`);
};

/** One bar: solid if it is used, hollow if not, thin with a cross at its end if it is lost. */
const jobBar = (outcome, x, y, width, height, words) => {
  const bar = shape("g", { class: `job outcome-${outcome}` }, shape("title", {}, words));
  if (OUTCOMES[outcome] !== "lost") {
    const inset = OUTCOMES[outcome] === "not used" ? 0.75 : 0;
    bar.append(shape("rect", { x: x + inset, y: y + inset, width: Math.max(0.5, width - 2 * inset), height: height - 2 * inset }));
    return bar;
  }
  const middle = y + height / 2;
  const arm = height / 2 - 0.5;
  bar.append(
    shape("rect", { x, y: middle - 1, width, height: 2 }),
    shape("path", { d: `M${x + width - 2 * arm} ${middle - arm}l${2 * arm} ${2 * arm}m${-2 * arm} 0l${2 * arm} ${-2 * arm}` }),
  );
  return bar;
};

const MOST_LINES = 60; // server steps; more than that are drawn as ticks only

const drawJobs = (figure, setting, result) => {
  const { speeds, jobs } = result.participation;
  const { begin, end, client, speed, row, start, finish, steps, outcome, used_by: usedBy, server_steps: serverSteps } = jobs;
  const width = figure.clientWidth;
  const step = client.length <= 12 ? 18 : 13;
  const box = { left: 54, right: width - 12, top: 36, bottom: 36 };
  const tops = client.map((_, index) => {
    if (index === 0 || speed[index] !== speed[index - 1]) box.bottom += 22; // for the name of the speed
    box.bottom += step;
    return box.bottom - step;
  });
  box.bottom += 4;
  const time = timeAxis(begin, end, [box.left, box.right]);
  const svg = canvas(width, box.bottom + 46);
  const lines = serverSteps.map((at) => `M${time.scale(at).toFixed(1)} 18v9`).join("");
  svg.append(shape("text", { class: "title", x: box.left, y: 12 }, "server steps"), shape("path", { class: "tick", d: lines }));
  if (serverSteps.length <= MOST_LINES) {
    svg.append(shape("path", { class: "grid", d: serverSteps.map((at) => `M${time.scale(at).toFixed(1)} 30V${box.bottom}`).join("") }));
  }
  svg.append(axes(box, time, { ticks: [] }));
  client.forEach((number, index) => {
    if (index === 0 || speed[index] !== speed[index - 1]) {
      svg.append(shape("text", { class: "label plain", x: box.left, y: tops[index] - 6 }, speeds[speed[index]].name));
    }
    if (step > 13 || index % 2 === 0) svg.append(shape("text", { x: box.left - 8, y: tops[index] + step / 2 + 4, "text-anchor": "end" }, String(number)));
  });
  const bars = shape("g", { class: "jobs" });
  row.forEach((index, job) => {
    const [from, to] = [start[job], finish[job]].map(time.scale);
    const became = usedBy[job] > 0 ? `used by server step ${grouped(usedBy[job])}` : OUTCOMES[outcome[job]];
    const words = `client ${client[index]}, time ${significant(start[job])} to ${significant(finish[job])}: ${grouped(steps[job])} steps, ${became}`;
    bars.append(jobBar(outcome[job], from, tops[index] + 2, Math.max(1, to - from - 1), step - 4, words));
  });
  svg.append(bars);
  const moments = Array.from({ length: 201 }, (_, index) => begin + ((end - begin) * index) / 200);
  const tell = (stop) => {
    const now = moments[stop];
    const busy = row.map((_, job) => job).filter((job) => start[job] <= now && now < finish[job]);
    const kinds = OUTCOMES.map((name, kind) => [kind, name, busy.filter((job) => outcome[job] === kind).length]);
    const said = kinds.filter(([, , count]) => count > 0).map(([kind, name, count]) => ({ look: `outcome-${kind}`, title: `jobs: ${name}`, value: grouped(count) }));
    const idle = client.length - new Set(busy.map((job) => row[job])).size;
    return { head: `time ${significant(now)}`, rows: [...said, { look: "plain", title: "clients without a job", value: grouped(idle) }], points: [] };
  };
  const title = figure.querySelector("figcaption").textContent;
  show(figure, svg, { stops: moments.map(time.scale), tell, span: [30, box.bottom] }, `Jobs of clients. ${title}.`);
};
