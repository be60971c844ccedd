// What stands beside the map: the list of edges, and what is behind the chosen one. All text is set as text, never as HTML: names and
// messages hold whatever somebody wrote into them.

import { SLOW_US, sortOf } from "/draw.js";

/** Rows of the list; the rest is found by searching. */
const MOST_ROWS = 200;

/** "0", "0.4", "12", "1.2k". */
export function count(value) {
  return scaled(value, 1000, ["", "k", "M", "G", "T"]);
}

/** "12 B", "1.2 KiB". */
export function bytes(value) {
  return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= step - 0.5 && unit + 1 < units.length) {
    value /= step;
    unit++;
  }
  const digits = value !== 0 && value < 9.95 && (unit > 0 || value % 1) ? 1 : 0;
  return value.toFixed(digits) + units[unit];
}

/** "80 µs", "1.5 ms", "2.1 s", "3.0 min". */
export function micros(value) {
  for (const [below, one, unit] of [[1e3, 1, "µs"], [1e6, 1e3, "ms"], [60e6, 1e6, "s"], [36e8, 60e6, "min"], [Infinity, 36e8, "h"]]) {
    if (value < below * 0.9995) return `${(value / one).toFixed(value / one < 9.95 && one > 1 ? 1 : 0)} ${unit}`;
  }
  return "";
}

/** An element with attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** "shop/cart" */
export function fullName(node) {
  return node.namespace ? `${node.namespace}/${node.name}` : node.name;
}

/** The list of edges: refused first, then the busiest. */
export function showList(list, scene, choose) {
  const wanted = scene.edges.filter((edge) => !scene.isFaint(edge));
  wanted.sort((a, b) => b.denied - a.denied || b.opened - a.opened || b.sent + b.received - a.sent - a.received);
  const focused = document.activeElement?.dataset?.key;
  const rows = wanted.slice(0, MOST_ROWS).map((edge) => row(edge, choose));
  const title = scene.node ? `Connections of ${fullName(scene.node)}` : "Who talks to whom";
  list.replaceChildren(make("h2", {}, title), ...rows);
  if (!rows.length) list.append(make("p", { class: "note" }, "Nothing here."));
  if (wanted.length > MOST_ROWS) {
    list.append(make("p", { class: "note" }, `and ${wanted.length - MOST_ROWS} more: search for them`));
  }
  // The list is made anew every second; whoever walks through it with the keyboard stays where they are.
  if (focused) rows.find((element) => element.dataset.key === focused)?.focus({ preventScroll: true });
}

function row(edge, choose) {
  const sort = sortOf(edge);
  const ends = make("span", { class: "ends" }, `${fullName(edge.source)} → ${fullName(edge.destination)}`);
  const rate = edge.denied > 0
    ? make("span", { class: "rate refused" }, `⊘ ${count(edge.denied)}/s refused`)
    : make("span", { class: "rate" }, `${count(edge.opened)}/s`);
  const more = [];
  if (edge.open > 0) more.push(`${count(edge.open)} open`);
  if (edge.sent + edge.received > 0) more.push(`${bytes(edge.sent + edge.received)}/s`);
  if (edge.rtt) more.push(`RTT ${micros(edge.rtt[0])}, p95 ${micros(edge.rtt[1])}`);
  if (edge.reasons.length) more.push(edge.reasons.map(([reason]) => reason).join(", "));
  const below = make("span", { class: "more" }, more.join(" · "));
  if (sort === "slow") below.append(make("span", { class: "slow" }, " · slow"));
  const element = make("button", { type: "button", class: "edge", onclick: () => choose(edge) }, ends, below, rate);
  element.dataset.key = edge.key;
  return element;
}

/** What is behind one edge. `ask` gets JSON from the server. */
export async function showEdge(detail, edge, ask, close) {
  const numbers = make("dl", { class: "numbers" });
  const flows = make("div", {}, make("p", { class: "note" }, "asking…"));
  const policy = make("div");
  detail.replaceChildren(
    make("button", { type: "button", class: "back", onclick: close }, "← all connections"),
    make("h2", {}, `${fullName(edge.source)} → ${fullName(edge.destination)}`),
    numbers, policy,
    make("h3", {}, "Newest flows"), flows,
  );
  fillNumbers(numbers, edge);
  const query = new URLSearchParams({ from: filter(edge.source), to: filter(edge.destination) });
  try {
    const found = (await ask(`/api/flows?${query}`)).filter((flow) => isOf(flow, edge));
    const openPolicy = (object) => showPolicy(policy, object, ask);
    flows.replaceChildren(...(found.length ? found.map((flow) => flowOf(flow, openPolicy)) : [make("p", { class: "note" }, "None is remembered.")]));
    const deciding = found.find((flow) => flow.policy && flow.verdict === "denied") ?? found.find((flow) => flow.policy);
    if (deciding) await openPolicy(deciding.policy);
  } catch (error) {
    flows.replaceChildren(make("p", { class: "note refused" }, String(error.message ?? error)));
  }
  return numbers;
}

/** What "weft flows --from" takes: strangers have no name that it knows. */
function filter(node) {
  return node.namespace ? fullName(node).replace(/ \(service\)$/, "") : "";
}

function isOf(flow, edge) {
  const is = (end, node) => (node.namespace ? true : !end?.namespace);
  return is(flow.source, edge.source) && is(flow.destination, edge.destination);
}

/** Numbers change every second; what stands below them stays. */
export function fillNumbers(numbers, edge) {
  const rows = [
    ["Connections", `${count(edge.opened)}/s, ${count(edge.open)} open`],
    ["Refused", edge.denied > 0 ? `${count(edge.denied)}/s: ${edge.reasons.map(([reason, n]) => `${n} ${reason}`).join(", ")}` : "none"],
    ["Bytes", `${bytes(edge.sent)}/s sent, ${bytes(edge.received)}/s received`],
    ["Round trip", edge.rtt ? `${micros(edge.rtt[0])} median, ${micros(edge.rtt[1])} p95${edge.rtt[1] > SLOW_US ? " (slow)" : ""}` : "none has ended"],
    ["Lasted", edge.lasted ? `${micros(edge.lasted[0])} median, ${micros(edge.lasted[1])} p95` : "none has ended"],
    ["Retransmits", `${count(edge.retransmits)}/s`],
  ];
  if (edge.services.length) rows.push(["Service", edge.services.join(", ")]);
  numbers.replaceChildren(...rows.flatMap(([name, value]) => [
    make("dt", {}, name),
    make("dd", name === "Refused" && edge.denied > 0 ? { class: "refused" } : {}, value),
  ]));
}

function flowOf(flow, openPolicy) {
  const time = String(flow.time).slice(11, 23);
  const port = flow.destination?.port ? `${flow.protocol} ${flow.destination.port}` : flow.protocol;
  const element = make("div", { class: "flow" },
    make("div", { class: "top" },
      make("span", { class: `word ${flow.verdict === "denied" ? "denied" : ""}` }, flow.verdict === "denied" ? `⊘ ${flow.event}` : flow.event),
      make("span", {}, time), make("span", {}, port),
      make("span", {}, sizeOf(flow))),
    make("p", {}, flow.message));
  if (flow.policy) {
    element.append(make("button", { type: "button", onclick: () => openPolicy(flow.policy) }, flow.policy + (flow.rule ? `, ${flow.rule}` : "")));
  }
  return element;
}

function sizeOf(flow) {
  const all = (flow.bytes?.sent ?? 0) + (flow.bytes?.received ?? 0);
  return all > 0 ? bytes(all) : "";
}

async function showPolicy(place, object, ask) {
  const found = await ask(`/api/policies?${new URLSearchParams({ object })}`);
  const numbers = make("dl", { class: "numbers" });
  place.replaceChildren(make("h3", {}, "Policy that decided"), numbers);
  const add = (name, value) => numbers.append(make("dt", {}, name), make("dd", {}, value || "-"));
  add("Object", object);
  const first = found[0];
  if (!first) return add("Now", "it is gone, or no asked node has it");
  add("Directions", first.directions.join(", "));
  add("Tier", first.priority ? `${first.tier}, priority ${first.priority}` : first.tier);
  add("Mode", first.mode);
  add("Rules", `${first.rules}, ${first.effects.join(" and ") || "none"}`);
  const pods = found.flatMap((p) => p.pods.map((pod) => `${pod} (${p.node})`));
  add("Selects", pods.slice(0, 12).join(", ") + (pods.length > 12 ? `, and ${pods.length - 12} more` : ""));
  const problems = found.flatMap((p) => p.problems.map((problem) => problem.message));
  if (problems.length) add("Wrong with it", [...new Set(problems)].join("; "));
}
