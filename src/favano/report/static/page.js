// The controls of the page, and redrawing.
"use strict";

(() => {
  const read = () => JSON.parse(document.getElementById("results").textContent);
  let page = read();
  const figures = [...document.querySelectorAll("figure.chart")];
  const chosen = (name) => document.querySelector(`input[name=${name}]:checked`).value;
  const say = (text) => {
    document.getElementById("said").textContent = text;
  };

  const draw = (figure) => {
    if (figure.clientWidth === 0) return; // in a setting that is not shown
    const setting = page.settings[figure.dataset.setting];
    const result = setting.results[figure.dataset.result];
    if (figure.dataset.chart === "clients") drawClients(figure, setting, result);
    else if (figure.dataset.chart === "served") drawServed(figure, setting, result);
    else if (figure.dataset.chart === "staleness") drawStaleness(figure, setting, result);
    else if (figure.dataset.chart === "availability") drawAvailability(figure, setting, result);
    else if (figure.dataset.chart === "jobs") drawJobs(figure, setting, result);
    else drawCurves(figure, page, setting, choice());
  };

  /** What is chosen for the curves. */
  const choice = () => {
    const boxes = document.querySelectorAll("input[data-method]:checked");
    const methods = new Set([...boxes].map((box) => Number(box.dataset.method)));
    const [log, seeds] = ["log", "seeds"].map((id) => document.getElementById(id).checked);
    const [from, to] = edges.map((edge) => (edge.value === "" ? null : edge.valueAsNumber));
    const range = from === null && to === null ? null : [from ?? 0, to ?? Infinity];
    return {
      axis: chosen("axis"), measure: chosen("measure"), log, seeds,
      range: range && range[0] < range[1] ? closed(range) : null,
      shown: (result) => methods.has(result.method) && passes(result),
    };
  };

  const edges = ["from", "to"].map((id) => document.getElementById(id));

  /** A range that ends with the last value, if no other end is chosen. */
  const closed = ([from, to]) => {
    if (to !== Infinity) return [from, to];
    const values = page.settings.flatMap((setting) => setting.results.flatMap((result) => result.x[chosen("axis")] ?? []));
    const most = values.reduce((high, value) => Math.max(high, value), 0);
    return from < most ? [from, most] : null;
  };

  const filters = [...document.querySelectorAll("select[data-key]")];

  /** Whether a result has the chosen values of its keys. */
  const passes = (result) => filters.every((filter) => filter.value === "" || filter.value === `=${result.keys[filter.dataset.key]}`);

  /** Hide the numbers of results that do not pass, and say how many do. */
  const filterTables = () => {
    for (const table of document.querySelectorAll("#final table[data-setting]")) {
      const { results } = page.settings[table.dataset.setting];
      const rows = table.querySelectorAll("tbody tr");
      if (rows.length === results.length) rows.forEach((row, index) => { row.hidden = !passes(results[index]); });
    }
    const all = page.settings.flatMap((setting) => setting.results);
    const some = all.filter(passes).length;
    document.getElementById("filtered").textContent = some < all.length ? `${some} of ${all.length} results are shown` : "";
  };

  const drawAllCurves = () => {
    document.getElementById("measure-name").textContent = page.measures[chosen("measure")].name;
    figures.filter((figure) => figure.dataset.chart === "curves").forEach(draw);
  };

  // What a live page replaces is looked up when it is used.
  document.addEventListener("change", ({ target }) => {
    if (target.matches("#curves .controls :is(input, select)")) {
      if (target.name === "axis") edges.forEach((edge) => { edge.value = ""; }); // it has other units
      if (target.dataset.key) filterTables();
      drawAllCurves();
      sayShown();
    } else if (target.id === "reference") {
      compare();
      say(`Differences are now against ${target.value}.`);
    }
    keepState();
  });

  const sayShown = () => {
    const { axis, measure, log, range } = choice();
    const part = range ? `, from ${short(range[0])} to ${short(range[1])}` : "";
    const some = document.getElementById("filtered").textContent;
    say(`The plot now shows ${page.measures[measure].name} against ${AXES[axis]}${log ? ", logarithmic" : ""}${part}.${some ? ` ${some}.` : ""}`);
  };

  const zoom = (range) => {
    edges.forEach((edge, index) => { edge.value = range ? range[index] : ""; });
    drawAllCurves();
    sayShown();
    keepState();
  };
  document.getElementById("whole").addEventListener("click", () => zoom(null));

  const plots = figures.filter((figure) => figure.dataset.chart === "curves");
  plots.forEach((figure) => dragToZoom(figure, zoom));
  const fileName = (kind) => `${chosen("measure")}-${chosen("axis")}.${kind}`;
  const drawing = () => {
    const { shown } = choice();
    const present = new Set(page.settings.flatMap((setting) => setting.results.filter(shown)).map((result) => result.method));
    return picture(plots, page.measures[chosen("measure")].name, page.methods.filter((_, number) => present.has(number)));
  };
  document.getElementById("save-svg").addEventListener("click", () => {
    save(fileName("svg"), new Blob([new XMLSerializer().serializeToString(drawing())], { type: "image/svg+xml" }));
  });
  document.getElementById("save-png").addEventListener("click", async () => save(fileName("png"), await pixels(drawing())));
  document.getElementById("save-csv").addEventListener("click", () => save(fileName("csv"), new Blob([numbers(page, choice())], { type: "text/csv" })));
  document.getElementById("link").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(linkOf());
      say("The link is copied.");
    } catch {
      location.hash = stateOf();
      say("The link is in the address of this page.");
    }
  });

  const compare = () => {
    const reference = document.getElementById("reference");
    for (const table of document.querySelectorAll("#final table[data-setting]")) {
      const { differences, unit } = page.settings[table.dataset.setting];
      const words = differences[reference.value];
      const heading = table.querySelector("th[data-column=difference]");
      if (!heading) continue;
      heading.textContent = [`against ${reference.value}`, unit].filter(Boolean).join(", ");
      table.querySelectorAll("td[data-column=difference]").forEach((cell, row) => {
        cell.textContent = words ? words[row] : "–";
        cell.dataset.label = heading.textContent;
      });
    }
  };
  const place = document.getElementById("place");
  const choosePlace = () => {
    for (const block of document.querySelectorAll(".setting")) block.hidden = block.dataset.setting !== place.value;
    figures.filter((figure) => figure.dataset.chart !== "curves").forEach(draw);
  };
  place.addEventListener("change", () => {
    choosePlace();
    say(`Clients are now those of ${place.selectedOptions[0].textContent}.`);
  });

  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
        say("Copied.");
      } catch {
        getSelection().selectAllChildren(code); // if the browser forbids copying, the user only has to press a key
        button.textContent = "Selected";
        say("Selected; copy it with your keyboard.");
      }
      setTimeout(() => {
        button.textContent = "Copy";
      }, 2000);
    });
  }

  for (const control of document.querySelectorAll(".controls:not([data-useless])")) control.hidden = false;
  document.getElementById("scriptless").remove();
  const restore = () => {
    if (!location.hash.includes("=")) return; // the name of a section
    applyState(location.hash.slice(1));
    filterTables();
    compare();
  };
  restore();
  drawAllCurves();
  choosePlace();
  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return;
    restore();
    drawAllCurves();
    choosePlace();
  });
  const paper = (printing) => {
    document.body.classList.toggle("paper", printing);
    figures.forEach(draw);
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  const widths = new WeakMap(figures.map((figure) => [figure, figure.clientWidth]));
  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.clientWidth !== widths.get(target)) {
        widths.set(target, target.clientWidth);
        draw(target);
      }
    }
  });
  figures.forEach((figure) => watcher.observe(figure));
  follow(() => {
    page = read();
    drawAllCurves();
    filterTables();
    if (document.getElementById("reference").value) compare();
  });
})();
