"use strict";
// What is drawn: curves and frontiers of the environment that is chosen, filtered by agent, epsilon and privacy.
const data = JSON.parse(document.getElementById("data").textContent);
const MOST = 12; // lines that are told apart in one chart
const DASHES = { none: [1, 0], joint: [8, 3], local: [2, 2], shuffle: [8, 3, 2, 3], reward: [8, 3, 2, 3, 2, 3],
  "shuffle-reward": [8, 3, 2, 3, 2, 3, 2, 3], "local-reward": [2, 2, 5, 2] };
const NAMES = { none: "not private", joint: "joint", local: "local", shuffle: "shuffle", reward: "rewards",
  "shuffle-reward": "rewards, shuffle", "local-reward": "rewards, local" };
const control = (name) => document.getElementById(name);
const chosen = () => ({
  env: control("env").value,
  agent: control("agent").value,
  epsilon: control("epsilon").value,
  group: control("group").value,
  log: document.querySelector("input[name=scale]:checked").value === "log",
});

function fits(line, by) {
  const budget = by.epsilon === "" || line.epsilon === null || String(line.epsilon) === by.epsilon;
  const group = by.group === "" || (by.group === "private") === (line.notion !== "none");
  return line.env === Number(by.env) && (by.agent === "" || line.agent === by.agent) && budget && group;
}

function band(mean, half, log) {
  if (half === null) return [mean, mean];
  return log && mean > 0
    ? [mean * Math.exp(-half / mean), mean * Math.exp(Math.min(half / mean, 50))]
    : [Math.max(mean - half, 0), mean + half];
}

function rows(lines, log) {
  return lines.flatMap((line) => line.x.map((x, i) => {
    const [low, high] = band(line.mean[i], line.half[i], log);
    return { name: line.name, privacy: NAMES[line.notion], x, mean: line.mean[i], low, high, seeds: line.seeds };
  })).filter((row) => !log || row.mean > 0);
}

function thin(lines, log) {
  return lines.flatMap((line) => line.each.flatMap((one, k) => line.x.map((x, i) => (
    { name: line.name, one: `${line.name} ${k}`, privacy: NAMES[line.notion], x, mean: one[i] }
  )))).filter((row) => !log || row.mean > 0);
}

function spec(lines, by, options) {
  const narrow = window.innerWidth < 640;
  const color = { field: "name", type: "nominal", sort: null, legend: null,
    scale: { domain: lines.map((line) => line.name), range: lines.map((line) => line.color) } };
  const notions = [...new Set(lines.map((line) => line.notion))];
  const dash = { field: "privacy", type: "nominal", legend: null,
    scale: { domain: notions.map((one) => NAMES[one]), range: notions.map((one) => DASHES[one]) } };
  const budgets = [...new Set(lines.filter((line) => !line.level).flatMap((line) => line.x))];
  const x = options.points
    ? { field: "x", type: "quantitative", title: options.x, scale: { type: "log", nice: false, padding: 12 }, axis: { format: "~g", values: budgets } }
    : { field: "x", type: "quantitative", title: options.x, axis: { format: ",~f" } };
  const scale = by.log ? { type: "log", nice: false, padding: 8 } : { zero: true };
  const y = { field: "mean", type: "quantitative", title: options.y, scale, axis: { format: ",~f" } };
  const tooltip = [
    { field: "name", title: "agent" }, { field: "x", title: options.x, format: "," }, { field: "mean", title: "regret", format: ",.4~r" },
    { field: "low", title: "95 % from", format: ",.4~r" }, { field: "high", title: "to", format: ",.4~r" },
    { field: "seeds", title: "seeds" }, { field: "privacy", title: "privacy" },
  ];
  const shape = options.points ? { type: "rule", aria: false } : { type: "area", opacity: 0.15, aria: false };
  const seeds = thin(lines, by.log);
  const one = options.points ? { type: "point", size: 16 } : { type: "line", strokeWidth: 0.7 };
  const layer = [
    { mark: shape, encoding: { y: { ...y, field: "low" }, y2: { field: "high" } } },
    { mark: { type: "line", strokeWidth: 2.2, aria: false }, encoding: { y, strokeDash: dash } },
    { mark: { type: "point", filled: true, size: options.points ? 50 : 90, opacity: options.points ? 1 : 0.001, aria: false }, encoding: { y, tooltip } },
  ];
  if (seeds.length)
    layer.unshift({ data: { values: seeds }, mark: { ...one, opacity: 0.5, aria: false }, encoding: { y, detail: { field: "one" } } });
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    description: options.description,
    width: "container", height: narrow ? 260 : 320,
    autosize: { type: "fit", contains: "padding" },
    data: { values: rows(lines, by.log) },
    encoding: { x, color },
    layer,
    config: {
      aria: true, font: "system-ui, sans-serif",
      axis: { labelFontSize: 13, titleFontSize: 13, labelColor: "#1a1a1a", titleColor: "#1a1a1a", grid: true, gridColor: "#e5e7eb", labelOverlap: "greedy", labelFlush: true, tickCount: narrow ? 4 : 7 },
      view: { stroke: null },
    },
  };
}

function legend(place, lines) {
  control(`${place}-legend`).replaceChildren(...lines.map((line) => {
    const item = document.createElement("li");
    const dash = line.notion === "none" ? "" : ` stroke-dasharray="${DASHES[line.notion].join(" ")}"`;
    item.innerHTML = `<svg width="34" height="10" aria-hidden="true"><line x1="0" x2="34" y1="5" y2="5" stroke-width="3" stroke="${line.color}"${dash}/></svg>`;
    item.append(line.level || line.notion === "none" ? line.name : `${line.name} (${NAMES[line.notion]})`);
    return item;
  }));
}

const views = {};
async function draw(place, lines, by, options) {
  const element = control(place);
  const note = control(`${place}-note`);
  if (views[place]) views[place].finalize();
  delete views[place];
  element.replaceChildren();
  note.textContent = lines.length ? "" : "Nothing fits these choices.";
  element.hidden = !lines.length;
  legend(place, lines.slice(0, MOST));
  if (!lines.length) return;
  const shown = lines.slice(0, MOST);
  if (shown.length < lines.length)
    note.textContent = `The ${MOST} with the least regret of ${lines.length} are drawn; choose an agent or an epsilon to see others.`;
  const few = shown.filter((line) => line.seeds > 1 && line.seeds < 5).length;
  if (few) note.textContent += ` Fewer than 5 seeds: each is drawn ${options.points ? "as a small point" : "thin"}, without an interval.`;
  views[place] = await vegaEmbed(element, spec(shown, by, options), { renderer: "svg", actions: false, tooltip: { theme: "light" } });
}

function filterTable(by) {
  let shown = 0;
  for (const row of document.querySelectorAll("#ranks tbody tr")) {
    const line = JSON.parse(row.dataset.line);
    row.hidden = !(line.env === null ? by.agent === "" || by.agent === line.agent : fits(line, by));
    shown += !row.hidden;
  }
  control("ranks-note").textContent = shown ? "" : "Nothing fits these choices.";
}

let turn = Promise.resolve();
function show() {
  const by = chosen();
  const env = data.envs[by.env];
  filterTable(by);
  for (const heading of document.querySelectorAll("[data-env]")) heading.textContent = env;
  for (const told of document.querySelectorAll("[data-world]")) told.hidden = told.dataset.world !== by.env;
  const frontier = data.frontier.filter((line) => fits({ ...line, epsilon: null, agent: line.level ? by.agent : line.agent, notion: line.level && by.group === "private" ? "joint" : line.notion }, by));
  control("privacy").hidden = !data.frontier.length;  // all private agents have one epsilon
  const curves = data.curves.filter((line) => fits(line, by));
  const users = Math.max(...data.curves.filter((line) => line.env === Number(by.env)).map((line) => line.x.at(-1)));
  turn = turn.then(() => draw("frontier", frontier.filter((line) => frontier.some((one) => !one.level)), { ...by, log: true }, {
    x: "epsilon", y: `regret after ${users.toLocaleString("en-US")} users`, points: true,
    description: `Regret against epsilon in ${env}: ${frontier.map((line) => line.name).join(", ")}. The table of ranks has the numbers.`,
  })).then(() => draw("curves", curves, by, {
    x: "users served", y: "cumulative regret", points: false,
    description: `Cumulative regret along the users in ${env}: ${curves.slice(0, MOST).map((line) => line.name).join(", ")}. The table of ranks has the numbers.`,
  })).then(() => { document.body.dataset.drawn = JSON.stringify(by); });
}

control("controls").addEventListener("change", show);
let width = window.innerWidth < 640;
window.addEventListener("resize", () => { if (width !== window.innerWidth < 640) { width = !width; show(); } });
show();
