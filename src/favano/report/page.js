"use strict";

(() => {
  const series = JSON.parse(document.getElementById("series").textContent);
  const axes = {
    time: "simulated time",
    server_steps: "server steps",
    local_steps: "local steps",
    bits: "bits sent, up and down",
  };
  const measures = {
    accuracy: { name: "Test accuracy", format: ".1f", unit: " %", log: false },
    loss: { name: "Test loss", format: ".3f", unit: "", log: false },
    variance: { name: "Variance of the client models, logarithmic,", format: ".3~g", unit: "", log: true },
  };
  const narrow = window.matchMedia("(max-width: 40rem)");
  const coarse = window.matchMedia("(pointer: coarse)");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = () => document.querySelector("input[name=axis]:checked").value;
  const shown = (index) => document.querySelector(`input[data-series="${index}"]`).checked;

  // Plotly reads tags in names; a name is text.
  const plain = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

  const translucent = (colour, share) => {
    const number = parseInt(colour.slice(1), 16);
    return `rgba(${number >> 16},${(number >> 8) & 255},${number & 255},${share})`;
  };

  const band = (one, measure, colour) => {
    const { low, high } = one.y[measure];
    const drawn = low.map((value, point) => point).filter((point) => low[point] !== null);
    const back = [...drawn].reverse();
    const x = one.x[axis()];
    return {
      type: "scatter",
      mode: "lines",
      x: [...drawn.map((point) => x[point]), ...back.map((point) => x[point])],
      y: [...drawn.map((point) => high[point]), ...back.map((point) => low[point])],
      fill: "toself",
      fillcolor: translucent(colour, dark.matches ? 0.2 : 0.14),
      line: { width: 0 },
      hoverinfo: "skip",
      showlegend: false,
    };
  };

  const line = (one, measure, colour) => {
    const { format, unit } = measures[measure];
    const several = Math.max(...one.seeds) > 1;
    const count = several ? " (%{customdata} seeds)" : "";
    return {
      type: "scatter",
      mode: "lines",
      name: plain(one.title),
      x: one.x[axis()],
      y: one.y[measure].mean,
      customdata: one.seeds,
      line: { color: colour, width: 2.5, dash: one.dash ? one.dash.replace(/ |$/g, "px,").slice(0, -1) : "solid" },
      connectgaps: false,
      hovertemplate: `${plain(one.title)}: %{y:${format}}${unit}${count}<extra></extra>`,
      showlegend: false,
    };
  };

  const traces = (measure) => {
    const visible = series
      .filter((one, index) => one.seeds.length > 0 && shown(index))
      .map((one) => ({ one, colour: style(one.colour) }));
    return [
      ...visible.map(({ one, colour }) => band(one, measure, colour)),
      ...visible.map(({ one, colour }) => line(one, measure, colour)),
    ];
  };

  // Below two decades a logarithmic axis needs ticks at 2 and 5 to be read.
  const decades = (measure) => {
    const values = series.flatMap((one) => one.y[measure].mean).filter((value) => value > 0);
    return Math.log10(Math.max(...values) / Math.min(...values));
  };

  const layout = (measure) => {
    const rule = style("--rule");
    const common = {
      gridcolor: style("--grid"),
      linecolor: rule,
      tickcolor: rule,
      zeroline: false,
      automargin: true,
      fixedrange: coarse.matches,
    };
    const vertical = measures[measure].log
      ? { type: "log", dtick: decades(measure) < 2 ? "D2" : undefined, tickformat: ",~g" }
      : { rangemode: "tozero", nticks: 7 };
    return {
      autosize: true,
      margin: { l: 8, r: 24, t: 8, b: 8 },
      paper_bgcolor: style("--ground"),
      plot_bgcolor: style("--ground"),
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow.matches ? 13 : 14, color: style("--quiet") },
      hovermode: axis() === "time" ? "x unified" : "closest",
      hoverlabel: { bgcolor: style("--panel"), bordercolor: rule, font: { color: style("--ink") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--quiet"), activecolor: style("--ink") },
      dragmode: coarse.matches ? false : "zoom",
      xaxis: {
        ...common,
        title: { text: axes[axis()], standoff: 12, font: { size: narrow.matches ? 13 : 14 } },
        tickformat: axis() === "time" ? ",~g" : "~s",
        hoverformat: ",.5~g",
        nticks: narrow.matches ? 5 : 9,
        rangemode: "tozero",
        showgrid: false,
        ticks: "outside",
        ticklabeloverflow: "allow",
        spikecolor: style("--quiet"),
        spikethickness: 1,
        spikedash: "solid",
      },
      yaxis: { ...common, ...vertical },
    };
  };

  const settings = {
    responsive: true,
    displaylogo: false,
    displayModeBar: coarse.matches ? false : "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" },
  };

  const draw = () => {
    for (const measure of Object.keys(measures)) {
      const plot = document.getElementById(measure);
      Plotly.react(plot, traces(measure), layout(measure), settings);
      plot.setAttribute(
        "aria-label",
        `${measures[measure].name} against ${axes[axis()]}. At the end: ${plot.dataset.ends}.`,
      );
    }
  };

  for (const input of document.querySelectorAll("input[name=axis], input[data-series]")) {
    input.addEventListener("change", draw);
  }
  for (const media of [narrow, coarse, dark]) {
    media.addEventListener("change", draw);
  }
  draw();
})();
