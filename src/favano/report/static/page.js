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
    else {
      const boxes = document.querySelectorAll("input[data-method]:checked");
      const shown = new Set([...boxes].map((box) => Number(box.dataset.method)));
      const { checked: log } = document.getElementById("log");
      drawCurves(figure, page, setting, { axis: chosen("axis"), measure: chosen("measure"), shown, log });
    }
  };

  const drawAllCurves = () => {
    document.getElementById("measure-name").textContent = page.measures[chosen("measure")].name;
    figures.filter((figure) => figure.dataset.chart === "curves").forEach(draw);
  };

  // What a live page replaces is looked up when it is used.
  document.addEventListener("change", ({ target }) => {
    if (target.matches("input[name=axis], input[name=measure], #log, input[data-method]")) {
      drawAllCurves();
      const scale = document.getElementById("log").checked ? ", logarithmic" : "";
      say(`The plot now shows ${page.measures[chosen("measure")].name} against ${AXES[chosen("axis")]}${scale}.`);
    } else if (target.id === "reference") {
      compare();
      say(`Differences are now against ${target.value}.`);
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
  drawAllCurves();
  choosePlace();
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
    if (document.getElementById("reference").value) compare();
  });
})();
