// Who trained the model: the weight of each client, and the staleness of its answers.
"use strict";

const SPEED_MARKS = [
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
  "M0-4.4L4.2 3.2H-4.2z",
  "M-3.2-3.2h6.4v6.4h-6.4z",
  "M0-4.6L4.6 0L0 4.6L-4.6 0z",
];

const MANY = 200; // clients of one speed; more than that are drawn as specks in one path

const speedLook = (speed) => `speed-${speed % 6}`;

/** Fair weight of a listed client: its share of all samples, where these count, or 1/n. */
const fairWeight = ({ listed, clients }, index) => (listed.fair ? listed.fair[index] : 1 / clients);

/** Weight of every listed client in units of its fair weight. */
const relativeWeights = (found) => found.listed.weight.map((weight, index) => weight / fairWeight(found, index));

/** Share of the weight by speed as one bar, with a tick at each fair share. */
const shareBar = (found, box, y) => {
  const drawn = shape("g", { class: "share" });
  const scale = linear([0, 1], [box.left, box.right]);
  let [from, fair] = [0, 0];
  found.speeds.forEach((speed, index) => {
    const weight = Math.max(0, speed.weight);
    drawn.append(
      shape("rect", { class: speedLook(index), x: scale(from) + (index ? 1 : 0), y, width: Math.max(0, scale(from + weight) - scale(from) - 1), height: 9, rx: 2 }),
    );
    from += weight;
    fair += speed.fair ?? speed.clients / found.clients;
    if (index < found.speeds.length - 1) drawn.append(shape("path", { class: "fair", d: `M${scale(fair)} ${y - 4}v17` }));
  });
  return drawn;
};

const drawClients = (figure, setting, result) => {
  const found = result.participation;
  const { listed, speeds } = found;
  const relative = relativeWeights(found);
  const unit = listed.fair ? "fair" : "1/n";
  const width = figure.clientWidth;
  const box = { left: 40, right: width - 36, top: 40, bottom: 236 };
  const most = Math.max(1.2, ...setting.results.flatMap((each) => (each.participation ? relativeWeights(each.participation) : [])));
  const least = Math.min(0, ...relative);
  const levels = ticks(least, most, 4);
  const vertical = { ticks: levels, scale: linear([levels[0], levels.at(-1)], [box.bottom, box.top]), format: (value) => (value === 0 ? "0" : `${significant(value)}×`) };
  const order = listed.client.map((_, index) => index);
  order.sort((a, b) => listed.speed[a] - listed.speed[b] || relative[b] - relative[a]);
  const gap = Math.min(24, (box.right - box.left) / 12);
  const present = new Set(listed.speed).size;
  const room = box.right - box.left - 16 - gap * (present - 1);
  let shift = 0;
  const xs = order.map((client, rank) => {
    if (rank > 0 && listed.speed[client] !== listed.speed[order[rank - 1]]) shift += gap;
    return box.left + 8 + shift + (rank / Math.max(1, order.length - 1)) * room;
  });
  const svg = canvas(width, box.bottom + 30);
  svg.append(shareBar(found, box, 6), axes(box, { ticks: [], scale: null }, vertical));
  const fair = vertical.scale(1);
  svg.append(
    shape("path", { class: "fair", d: `M${box.left} ${fair}H${box.right}` }),
    shape("text", { class: "fair-label", x: box.right + 8, y: fair + 4 }, unit),
  );
  speeds.forEach((speed, number) => {
    const mine = order.map((client, rank) => rank).filter((rank) => listed.speed[order[rank]] === number);
    if (mine.length === 0) return;
    const places = mine.map((rank) => `${xs[rank].toFixed(1)} ${vertical.scale(relative[order[rank]]).toFixed(1)}`);
    const many = mine.length > MANY;
    const dots = shape("g", { class: `${many ? "specks" : "dots"} ${speedLook(number)}` });
    if (many) dots.append(shape("path", { d: places.map((place) => `M${place}h0`).join("") }));
    else for (const place of places) dots.append(shape("path", { d: SPEED_MARKS[number % SPEED_MARKS.length], transform: `translate(${place})` }));
    const middle = (xs[mine[0]] + xs[mine.at(-1)]) / 2;
    svg.append(dots, shape("text", { class: `label ${speedLook(number)}`, x: middle, y: box.bottom + 20, "text-anchor": "middle" }, `${grouped(speed.clients)} ${speed.name}`));
  });
  const tell = (rank) => {
    const client = order[rank];
    const look = speedLook(listed.speed[client]);
    const contacts = listed.contacts[client];
    const rows = [
      ["weight", `${significant(relative[client])} × ${listed.fair ? "its share of samples" : "1/n"}`],
      ["contacts", grouped(contacts)],
      ["steps per contact", significant(contacts ? listed.steps[client] / contacts : 0)],
      ["mean staleness", significant(listed.staleness[client])],
    ].map(([title, value]) => ({ look: "plain", title, value }));
    const head = `client ${listed.client[client]}, ${speeds[listed.speed[client]].name}`;
    return { head, rows, points: [[xs[rank], vertical.scale(relative[client]), look]] };
  };
  const title = figure.querySelector("figcaption").textContent;
  show(figure, svg, { stops: xs, tell, span: [box.top, box.bottom] }, `Effective weight of each client. ${title}.`);
};

const drawStaleness = (figure, setting, result) => {
  const { staleness, speeds } = result.participation;
  const { width: binWidth, counts } = staleness;
  const width = figure.clientWidth;
  const box = { left: 46, right: width - 12, top: 22, bottom: 190 };
  const bins = counts[0].length;
  const totals = Array.from({ length: bins }, (_, bin) => counts.reduce((sum, row) => sum + row[bin], 0));
  const all = totals.reduce((sum, count) => sum + count, 0) || 1;
  const found = ticks(0, (100 * Math.max(...totals)) / all || 1, 4);
  const vertical = { ticks: found, scale: linear([0, found.at(-1)], [box.bottom, box.top]), format: (value) => `${significant(value)} %` };
  const scale = linear([-0.5 * binWidth, (bins - 0.5) * binWidth], [box.left, box.right]);
  const marks = ticks(0, staleness.most || 1, 6, true).filter((value) => value <= staleness.most);
  const svg = canvas(width, box.bottom + 46);
  svg.append(axes(box, { ticks: marks, scale, format: short, title: "updates between start and use" }, vertical));
  const slot = Math.min(56, (box.right - box.left) / bins);
  const bar = Math.max(1, slot - (slot > 6 ? 2 : 0.5));
  const middle = (bin) => scale(bin * binWidth);
  for (let bin = 0; bin < bins; bin += 1) {
    let below = 0;
    counts.forEach((row, speed) => {
      const share = (100 * row[bin]) / all;
      const top = vertical.scale(below + share);
      const height = vertical.scale(below) - top;
      if (height > 0) svg.append(shape("rect", { class: `bar ${speedLook(speed)}`, x: middle(bin) - bar / 2, y: top, width: bar, height }));
      below += share;
    });
  }
  // A bin is drawn around its first value, so the mean is shifted left by half a bin.
  const mean = Math.min(box.right, scale(staleness.mean - (binWidth - 1) / 2));
  const side = mean > (box.left + box.right) / 2 ? "end" : "start";
  svg.append(
    shape("path", { class: "fair", d: `M${mean} ${box.top - 4}V${box.bottom}` }),
    shape("text", { class: "fair-label", x: mean + (side === "end" ? -6 : 6), y: box.top, "text-anchor": side }, `mean ${significant(staleness.mean)}`),
  );
  const tell = (bin) => {
    const last = bin * binWidth + binWidth - 1;
    const head = binWidth === 1 ? `staleness ${bin}` : `staleness ${grouped(bin * binWidth)} to ${grouped(last)}`;
    const rows = speeds.map((speed, index) => ({ look: speedLook(index), title: speed.name, value: `${significant((100 * counts[index][bin]) / all)} % of all jobs (${grouped(counts[index][bin])})` }));
    return { head, rows, points: [] };
  };
  const title = figure.querySelector("figcaption").textContent;
  show(figure, svg, { stops: totals.map((_, bin) => middle(bin)), tell, span: [box.top, box.bottom] }, `Staleness of the answers used. ${title}.`);
};
