// The data_visualization block as SVG, with its numbers in a table for those who cannot see it.

import { h, svg } from "./dom.js";
import { plain } from "./text-view.js";

const WIDTH = 560;
const HEIGHT = 240;
const PAD = { left: 52, right: 12, top: 12, bottom: 36 };
const COLOURS = 6; // classes c0..c5 of the style sheet

export function chart(block) {
  const { type } = block.chart;
  const draw = { pie, line: lines, area: lines, bar: bars }[type];
  if (!draw) throw new TypeError(`chart type ${type}`);
  const names = type === "pie" ? block.chart.segments.map((one) => one.label) : block.chart.series.map((one) => one.name);
  return h("figure", { class: "chart" },
    h("figcaption", {}, plain(block.title)),
    draw(block.chart, block.title),
    h("ul", { class: "legend" }, names.map((name, i) => h("li", {}, h("span", { class: `swatch c${i % COLOURS}` }), plain(name)))),
    h("details", {}, h("summary", { text: "Numbers" }), h("div", { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Numbers of the chart" }, numbers(block.chart))));
}

function frame(title, ...children) {
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `Chart: ${title}`, class: "chart-svg" }, children);
}

function numbers(data) {
  const cells = (row, tag) => row.map((one) => h(tag, tag === "th" ? { scope: "col" } : {}, plain(one)));
  const [head, rows] = data.type === "pie"
    ? [["Label", "Value"], data.segments.map((one) => [one.label, one.value])]
    : [[data.axis_config?.x_label ?? "Label", ...data.series.map((one) => one.name)], labels(data).map((label, i) => [label, ...data.series.map((one) => one.data[i]?.value ?? "")])];
  return h("table", {}, h("thead", {}, h("tr", {}, cells(head, "th"))), h("tbody", {}, rows.map((row) => h("tr", {}, cells(row, "td")))));
}

function labels(data) {
  return data.axis_config?.categories ?? data.series[0].data.map((one) => one.label);
}

/** Axes from 0 (or below, for negative numbers) to a round number above the highest value. */
function axes(data) {
  const values = data.series.flatMap((one) => one.data.map((point) => point.value));
  const step = niceStep(Math.max(...values, 0) - Math.min(...values, 0) || 1);
  const low = Math.floor(Math.min(...values, 0) / step) * step;
  const high = Math.max(Math.ceil(Math.max(...values, 0) / step) * step, low + step);
  const y = (value) => HEIGHT - PAD.bottom - ((value - low) / (high - low)) * (HEIGHT - PAD.top - PAD.bottom);
  const names = labels(data);
  const slot = (WIDTH - PAD.left - PAD.right) / Math.max(names.length, 1);
  const every = Math.ceil(names.length / 8);
  const marks = [];
  for (let value = low; value <= high + step / 2; value += step) {
    marks.push(svg("line", { class: "grid-line", x1: PAD.left, x2: WIDTH - PAD.right, y1: y(value), y2: y(value) }), svg("text", { x: PAD.left - 6, y: y(value) + 4, "text-anchor": "end", text: short(value) }));
  }
  names.forEach((name, i) => {
    if (i % every === 0) marks.push(svg("text", { x: PAD.left + slot * (i + 0.5), y: HEIGHT - PAD.bottom + 16, "text-anchor": "middle", text: String(name).slice(0, 12) }));
  });
  const { x_label: across, y_label: up } = data.axis_config ?? {};
  if (across) marks.push(svg("text", { class: "axis-label", x: (WIDTH + PAD.left) / 2, y: HEIGHT - 4, "text-anchor": "middle", text: across }));
  if (up) marks.push(svg("text", { class: "axis-label", transform: `translate(11 ${HEIGHT / 2}) rotate(-90)`, "text-anchor": "middle", text: up }));
  return { y, slot, marks, zero: y(0) };
}

function niceStep(range) {
  const rough = range / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((one) => one * power >= rough * 0.999);
}

function short(value) {
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);
}

function lines(data, title) {
  const { y, slot, marks, zero } = axes(data);
  const x = (i) => PAD.left + slot * (i + 0.5);
  return frame(title, marks, data.series.map((one, at) => {
    const points = one.data.map((point, i) => `${x(i)},${y(point.value)}`).join(" ");
    const shape = data.type === "area" ? svg("polygon", { class: `area c${at % COLOURS}`, points: `${x(0)},${zero} ${points} ${x(one.data.length - 1)},${zero}` }) : null;
    return [shape, svg("polyline", { class: `line c${at % COLOURS}`, points }), one.data.map((point, i) => svg("circle", { class: `dot c${at % COLOURS}`, cx: x(i), cy: y(point.value), r: 2.5 }))];
  }));
}

function bars(data, title) {
  const { y, slot, marks, zero } = axes(data);
  const width = (slot * 0.75) / data.series.length;
  return frame(title, marks, data.series.map((one, at) => one.data.map((point, i) => svg("rect", {
    class: `bar c${at % COLOURS}`,
    x: PAD.left + slot * (i + 0.125) + width * at,
    width: Math.max(width - 1, 1),
    y: Math.min(y(point.value), zero),
    height: Math.abs(y(point.value) - zero),
  }))));
}

function pie(data, title) {
  const total = data.segments.reduce((sum, one) => sum + Math.max(one.value, 0), 0) || 1;
  const [cx, cy, r] = [WIDTH / 2, HEIGHT / 2, HEIGHT / 2 - 12];
  let turned = 0;
  const at = (share) => `${cx + r * Math.sin(2 * Math.PI * share)} ${cy - r * Math.cos(2 * Math.PI * share)}`;
  return frame(title, data.segments.map((one, i) => {
    const share = Math.max(one.value, 0) / total;
    const from = turned;
    turned += share;
    if (share > 0.9999) return svg("circle", { class: `slice c${i % COLOURS}`, cx, cy, r });
    return svg("path", { class: `slice c${i % COLOURS}`, d: `M${cx} ${cy} L${at(from)} A${r} ${r} 0 ${share > 0.5 ? 1 : 0} 1 ${at(turned)} Z` });
  }));
}
