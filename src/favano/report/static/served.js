// Whom the final model serves: the score of each client against its effective weight.
"use strict";

/** Lowest and highest value of a column over all methods of a setting, so that plots can be compared. */
const servedExtent = (setting, column) => {
  const values = setting.results.flatMap((each) => each.served?.[column] ?? []).filter((value) => value !== null);
  return values.length > 0 ? [Math.min(...values), Math.max(...values)] : [0, 1]; // nothing to draw, so any axis will do
};

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const drawServed = (figure, setting, result) => {
  const { served } = result;
  const { speeds } = result.participation;
  const { name, kind } = setting.leading;
  const { say, most } = KINDS[kind];
  const width = figure.clientWidth;
  const box = { left: 46, right: width - 14, top: 30, bottom: 250 };
  const [low, high] = servedExtent(setting, "score");
  const levels = ticks(low, Math.min(high, most ?? high), 4);
  const vertical = { ticks: levels, scale: linear([levels[0], levels.at(-1)], [box.bottom, box.top]), format: short };
  const places = ticks(Math.min(0, servedExtent(setting, "weight")[0]), Math.max(1.2, servedExtent(setting, "weight")[1]), 5);
  const across = linear([places[0], places.at(-1)], [box.left, box.right]);
  const horizontal = { ticks: places, scale: across, format: (value) => (value === 0 ? "0" : `${significant(value)}×`), title: "effective weight, in units of 1/n" };
  const svg = canvas(width, box.bottom + 46);
  svg.append(
    axes(box, horizontal, vertical),
    shape("text", { class: "title", x: box.left, y: 14 }, name),
    shape("path", { class: "fair", d: `M${across(1)} ${box.top}V${box.bottom}` }),
  );
  const shown = served.client.map((_, index) => index).filter((index) => served.score[index] !== null && served.weight[index] !== null);
  shown.sort((a, b) => served.weight[a] - served.weight[b]);
  const at = (index) => [across(served.weight[index]), vertical.scale(served.score[index])];
  const centres = [];
  speeds.forEach((speed, number) => {
    const mine = shown.filter((index) => served.speed[index] === number);
    if (mine.length === 0) return;
    const mark = SPEED_MARKS[number % SPEED_MARKS.length];
    const dots = shape("g", { class: `dots faint ${speedLook(number)}` });
    for (const index of mine) {
      const [x, y] = at(index);
      dots.append(shape("path", { d: mark, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` }));
    }
    svg.append(dots);
    const score = mean(mine.map((index) => served.score[index]));
    centres.push({ number, mark, speed, score, x: across(mean(mine.map((index) => served.weight[index]))), y: vertical.scale(score) });
  });
  centres.sort((a, b) => a.y - b.y);
  let free = 0; // labels are moved down where they would overlap
  for (const { number, mark, speed, score, x, y } of centres) {
    const left = x > (box.left + box.right) / 2;
    const height = Math.max(y + 4, free);
    free = height + 16;
    svg.append(
      shape("g", { class: `dots centre ${speedLook(number)}` }, shape("path", { d: mark, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(2.4)` })),
      shape("text", { class: `label ${speedLook(number)}`, x: x + (left ? -14 : 14), y: height, "text-anchor": left ? "end" : "start" }, `${speed.name} ${say(score)}`),
    );
  }
  const tell = (stop) => {
    const index = shown[stop];
    const rows = [
      [name, say(served.score[index])],
      ["weight", `${significant(served.weight[index])} × 1/n`],
    ].map(([title, value]) => ({ look: "plain", title, value }));
    const head = `client ${served.client[index]}, ${speeds[served.speed[index]].name}`;
    return { head, rows, points: [[...at(index), speedLook(served.speed[index])]] };
  };
  const title = figure.querySelector("figcaption").textContent;
  show(figure, svg, { stops: shown.map((index) => at(index)[0]), tell, span: [box.top, box.bottom] }, `${name} of each client against its effective weight. ${title}.`);
};
