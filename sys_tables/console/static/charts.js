// Draws the charts of a page with uPlot, over the pictures that are there for readers without scripts.
"use strict";

const charts = new WeakMap();
const DURATIONS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000], ["ms", 1]];

function withUnit(value, unit) {
  if (value === null || value === undefined) return "";
  if (unit !== "ms") return value.toLocaleString();
  const [name, length] = DURATIONS.find(([, length]) => value >= length) ?? ["s", 1_000];
  return (value / length).toLocaleString(undefined, { maximumFractionDigits: 1 }) + " " + name;
}

function drawCharts() {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    const width = figure.clientWidth;
    const state = [figure.dataset.chart, width, colour("--text")].join();
    figure.classList.add("drawn");
    const last = charts.get(figure);
    if (last?.state === state || width === 0) continue;
    last?.plot.destroy();
    charts.set(figure, { state, plot: draw(figure, JSON.parse(figure.dataset.chart), width, colour) });
  }
}

function draw(figure, chart, width, colour) {
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const looks = (style) => {
    const line = figure.querySelector(`:scope > svg polyline.${style}`);
    return line ? getComputedStyle(line) : null;
  };
  const lines = chart.lines.map(({ name, style, values }) => ({
    label: name,
    value: (_, value) => withUnit(value, chart.unit),
    stroke: looks(style)?.stroke ?? colour("--busy"),
    fill: chart.hasBars ? colour("--busy") : undefined,
    dash: looks(style)?.strokeDasharray.match(/[\d.]+/g)?.map(Number),
    spanGaps: chart.joinsGaps,
    paths: chart.hasBars ? uPlot.paths.bars({ size: [0.9], align: 1 }) : undefined,
    points: { show: values.includes(null) && !chart.joinsGaps },
  }));
  const canvas = document.createElement("div");
  canvas.dataset.own = "chart";
  canvas.setAttribute("aria-hidden", "true"); // the picture has the words for screen readers
  figure.querySelector("[data-own=chart]")?.remove();
  figure.prepend(canvas);
  return new uPlot({
    width,
    height: 190,
    series: [{ label: "time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...lines],
    axes: [{ ...axis }, { ...axis, size: 70, values: (_, marks) => marks.map((mark) => withUnit(mark, chart.unit)) }],
    scales: { y: { range: (_, lowest, highest) => [Math.min(0, lowest * 1.1), highest > 0 ? highest * 1.1 : 1] } },
  }, [chart.times, ...chart.lines.map((line) => line.values)], canvas);
}

addEventListener("resize", drawCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
