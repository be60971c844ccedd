// The page: asks the server every second, keeps the map in place, and does what the reader wants of it.

import { colours, curve, draw, freeBow, point, sortOf } from "/draw.js";
import { CARD, layout } from "/layout.js";
import { count, fillNumbers, fullName, make, micros, showEdge, showList } from "/panel.js";

const INTERVAL = 1_000;
/** More edges than this make a large map. */
const MANY = 400;
/** Milliseconds after which a large map that is being moved is drawn anew, and after which it stands still again. */
const REDRAW_MOVED = 250;
const AT_REST = 200;
const get = (id) => document.getElementById(id);
const canvas = get("map");
const context = canvas.getContext("2d", { alpha: false });

/** Everything that is on the page; replaced by each answer, so nothing grows. */
const scene = {
  nodes: [], edges: [], node: null, edge: null, search: "",
  font: getComputedStyle(document.body).fontFamily,
  isFaint: (edge) => !matches(edge.source) && !matches(edge.destination) || scene.node !== null && edge.source !== scene.node && edge.destination !== scene.node,
  isFaintNode: (node) => scene.search !== "" && !matches(node) || scene.node !== null && node !== scene.node && !scene.near.has(node),
  near: new Set(),
};
const view = { x: 0, y: 0, scale: 1 };
let palette = colours();
let shape = "";
let places = new Map();
/** How far edges bow, by their key. */
let bows = new Map();
let span = 10;
let paused = false;
let touched = false;
let numbers = null;
let dirty = true;
/** For those who measure: frames drawn, and milliseconds from the page's start to its first map. */
const measured = { frames: 0, first: 0 };
window.weft = measured;

function matches(node) {
  return scene.search === "" || fullName(node).toLowerCase().includes(scene.search);
}

// What the server says.

let token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (location.hash) {
  sessionStorage.setItem("token", token ?? "");
  history.replaceState(null, "", location.pathname);
}

async function ask(path) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers });
  if (answer.status === 401) {
    get("token").open || get("token").showModal();
    throw new Error("a token is needed");
  }
  if (!answer.ok) throw new Error((await answer.text()).slice(0, 300));
  return answer.json();
}

get("token").addEventListener("close", () => {
  token = get("token-value").value.trim();
  sessionStorage.setItem("token", token);
});

async function look() {
  try {
    if (!paused && !document.hidden) take(await ask(`/api/map?window=${span}`));
  } catch (error) {
    get("agents").replaceChildren(make("span", { class: "wrong" }, `no answer: ${error.message}`));
  }
  setTimeout(look, INTERVAL);
}

function take(map) {
  const chosen = scene.edge?.key;
  const held = scene.node && fullName(scene.node);
  scene.nodes = map.nodes;
  // Two workloads may have one name in two namespaces, and no namespace: the full name tells them apart.
  arrange(map);
  for (const node of map.nodes) {
    node.at = places.get(fullName(node));
    node.hue = `hsl(${hash(node.namespace) % 360} 55% 55%)`;
    node.line = lineOf(node);
  }
  scene.edges = map.edges;
  for (const edge of map.edges) {
    edge.source = map.nodes[edge.from];
    edge.destination = map.nodes[edge.to];
    edge.key = keyOf(edge.source, edge.destination);
    edge.sort = sortOf(edge);
    edge.curve = curve(edge.source.at, edge.destination.at, bows.get(edge.key));
    edge.label = labelOf(edge);
  }
  scene.node = map.nodes.find((node) => fullName(node) === held) ?? null;
  scene.edge = map.edges.find((edge) => edge.key === chosen) ?? null;
  choose(scene.node);
  if (scene.edge && numbers) fillNumbers(numbers, scene.edge);
  summarize(map);
  get("empty").hidden = map.nodes.length > 0;
  get("legend").hidden = map.nodes.length === 0;
  measured.first ||= performance.now();
}

/** New places only where there are new workloads or edges: what stays does not move. */
function arrange(map) {
  const now = map.nodes.map(fullName).join("\n") + map.edges.map((e) => `${e.from}>${e.to}`).join(" ");
  if (now === shape) return;
  shape = now;
  const at = layout(map.nodes.length, map.edges);
  places = new Map(map.nodes.map((node, n) => [fullName(node), at[n]]));
  bows = new Map();
  // In a crowd there is no free way.
  for (const { from, to } of map.edges.length > MANY ? [] : map.edges) {
    bows.set(keyOf(map.nodes[from], map.nodes[to]), freeBow(at[from], at[to], at));
  }
  if (!touched) fit();
}

function keyOf(from, to) {
  return `${fullName(from)} > ${fullName(to)}`;
}

function labelOf(edge) {
  if (edge.denied > 0) return `⊘ ${count(edge.denied)}/s`;
  if (edge.sort === "idle") return edge.open > 0 ? `${count(edge.open)} open` : "";
  const rate = edge.opened > 0 ? `${count(edge.opened)}/s` : `${count(edge.open)} open`;
  return edge.rtt ? `${rate} · ${micros(edge.rtt[0])}` : rate;
}

/** What stands below a workload's name. */
function lineOf(node) {
  const parts = [node.namespace];
  if (node.incoming > 0) parts.push(`${count(node.incoming)}/s in`);
  if (node.outgoing > 0) parts.push(`${count(node.outgoing)}/s out`);
  return parts.filter(Boolean).join(" · ");
}

function hash(text) {
  let value = 7;
  for (const letter of text) value = (value * 31 + letter.codePointAt(0)) >>> 0;
  return (value * 2654435761) >>> 16;
}

function summarize(map) {
  const sum = (of) => map.edges.reduce((all, edge) => all + of(edge), 0);
  const denied = sum((edge) => edge.denied);
  get("totals").replaceChildren(
    make("b", {}, String(map.nodes.length)), " workloads · ",
    make("b", {}, `${count(sum((edge) => edge.opened))}/s`), " connections · ",
    make("b", {}, count(sum((edge) => edge.open))), " open · ",
    make(denied > 0 ? "span" : "b", denied > 0 ? { class: "denied" } : {}, `${count(denied)}/s refused`),
  );
  const failing = map.agents.filter((agent) => agent.error);
  const lost = map.agents.reduce((all, agent) => all + agent.lost, 0);
  const said = [map.agents.length === 1 ? map.agents[0].node : `${map.agents.length - failing.length} of ${map.agents.length} nodes`];
  if (lost) said.push(`${count(lost)} events lost`);
  if (map.omitted) said.push(`${map.omitted} edges left out`);
  get("agents").replaceChildren(said.filter(Boolean).join(" · "));
  if (failing.length) get("agents").append(" ", make("span", { class: "wrong", title: failing.map((a) => a.error).join("\n") }, `⚠ ${failing[0].error}`.slice(0, 120)));
}

// What the reader wants.

function choose(node) {
  scene.node = node;
  scene.near = new Set();
  for (const edge of node ? scene.edges : []) {
    if (edge.source === node) scene.near.add(edge.destination);
    if (edge.destination === node) scene.near.add(edge.source);
  }
  if (get("detail").hidden) showList(get("list"), scene, open);
  dirty = true;
}

async function open(edge) {
  scene.edge = edge;
  dirty = true;
  get("list").hidden = true;
  get("detail").hidden = false;
  const asked = showEdge(get("detail"), edge, ask, close);
  numbers = get("detail").querySelector(".numbers");
  get("detail").querySelector(".back").focus();
  await asked;
}

function close() {
  const key = scene.edge?.key;
  scene.edge = null;
  numbers = null;
  get("detail").hidden = true;
  get("list").hidden = false;
  choose(scene.node);
  [...get("list").querySelectorAll(".edge")].find((row) => row.dataset.key === key)?.focus();
}

function fit() {
  const { width, height } = canvas.getBoundingClientRect();
  const all = [...places.values()];
  if (!all.length || !width) return;
  const xs = all.map((at) => at.x);
  const ys = all.map((at) => at.y);
  const [left, right] = [Math.min(...xs) - CARD.width / 2 - 60, Math.max(...xs) + CARD.width / 2 + 60];
  const [top, bottom] = [Math.min(...ys) - 70, Math.max(...ys) + 70];
  view.scale = Math.min(1.35, width / (right - left), height / (bottom - top));
  view.x = width / 2 - (view.scale * (left + right)) / 2;
  view.y = height / 2 - (view.scale * (top + bottom)) / 2;
  dirty = true;
}

function zoom(by, x, y) {
  const scale = Math.min(3, Math.max(0.05, view.scale * by));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  zoomed = performance.now();
  touched = true;
  dirty = true;
}

function under(event) {
  const box = canvas.getBoundingClientRect();
  const x = (event.clientX - box.left - view.x) / view.scale;
  const y = (event.clientY - box.top - view.y) / view.scale;
  const node = scene.nodes.find(({ at }) => Math.abs(at.x - x) <= CARD.width / 2 && Math.abs(at.y - y) <= CARD.height / 2);
  if (node) return { node };
  let best = { edge: null, away: 9 / view.scale };
  for (const edge of scene.edges) {
    if (scene.isFaint(edge)) continue;
    for (let step = 1; step < 24; step++) {
      const at = point(edge.curve, step / 24);
      const away = Math.hypot(at.x - x, at.y - y);
      if (away < best.away) best = { edge, away };
    }
  }
  return { edge: best.edge };
}

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  drag = { x: event.clientX, y: event.clientY, far: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) {
    const { node, edge } = under(event);
    canvas.classList.toggle("over", Boolean(node || edge));
    return;
  }
  const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
  if (!drag.far && Math.hypot(dx, dy) < 4) return;
  view.x += dx;
  view.y += dy;
  drag = { x: event.clientX, y: event.clientY, far: true };
  touched = dirty = true;
});
canvas.addEventListener("pointerup", (event) => {
  const clicked = drag && !drag.far;
  drag = null;
  dirty = true;
  if (!clicked) return;
  const { node, edge } = under(event);
  if (edge) return open(edge);
  if (!get("detail").hidden) close();
  choose(node === scene.node ? null : node ?? null);
});
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY / 500), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

/** The nearest card in a direction, for those who walk with the keyboard. */
function beside(dx, dy) {
  const from = scene.node?.at;
  if (!from) return scene.nodes.find(matches) ?? null;
  let best = [scene.node, Infinity];
  for (const node of scene.nodes) {
    const [x, y] = [node.at.x - from.x, node.at.y - from.y];
    const ahead = x * dx + y * dy;
    const away = ahead + 2.5 * Math.abs(x * dy) + 2.5 * Math.abs(y * dx);
    if (ahead > 1 && away < best[1] && matches(node)) best = [node, away];
  }
  return best[0];
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

canvas.addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  const { width, height } = canvas.getBoundingClientRect();
  if (step) choose(beside(...step));
  else if (event.key === "Enter") get("list").querySelector(".edge")?.focus();
  else if (event.key === "+" || event.key === "=") zoom(1.25, width / 2, height / 2);
  else if (event.key === "-") zoom(0.8, width / 2, height / 2);
  else return;
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.target instanceof HTMLInputElement && event.target.type !== "radio") {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") get("detail").hidden ? choose(null) : close();
  else if (event.key === "/") get("search").focus();
  else if (event.key === "p") get("pause").click();
  else if (event.key === "f") get("fit").click();
  else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.classList?.contains("edge")) {
    const other = event.key === "ArrowDown" ? event.target.nextElementSibling : event.target.previousElementSibling;
    if (other?.classList.contains("edge")) other.focus();
  } else return;
  event.preventDefault();
});

get("search").addEventListener("input", () => {
  scene.search = get("search").value.trim().toLowerCase();
  choose(scene.node);
});
get("windows").addEventListener("change", (event) => (span = Number(event.target.value)));
get("pause").addEventListener("click", () => {
  paused = !paused;
  get("pause").setAttribute("aria-pressed", String(paused));
  get("pause").textContent = paused ? "Go on" : "Pause";
});
get("fit").addEventListener("click", () => {
  touched = false;
  fit();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = colours();
  dirty = true;
});

new ResizeObserver(() => {
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  if (!touched) fit();
  dirty = true;
}).observe(get("stage"));

/** When it was zoomed last; whether what is shown is what was drawn, moved. */
let zoomed = -Infinity;
let blurred = false;
/** What was drawn last, and from where it was seen. */
const still = { canvas: document.createElement("canvas"), x: 0, y: 0, scale: 0, at: 0 };

/** Draws only what changed: a page that is left open costs nothing. */
function frame(now) {
  // A large map that is dragged or zoomed is moved as it is, and drawn anew now and then: that keeps up with the hand.
  const moving = scene.edges.length > MANY && (drag?.far || now - zoomed < AT_REST);
  if (dirty || (blurred && !moving)) {
    blurred = moving && still.scale > 0 && now - still.at < REDRAW_MOVED;
    if (blurred) move();
    else {
      draw(context, scene, view, devicePixelRatio, palette);
      if (moving) keep();
    }
    dirty = false;
    measured.frames++;
  }
  requestAnimationFrame(frame);
}

function keep() {
  if (still.canvas.width !== canvas.width) still.canvas.width = canvas.width;
  if (still.canvas.height !== canvas.height) still.canvas.height = canvas.height;
  still.canvas.getContext("2d", { alpha: false }).drawImage(canvas, 0, 0);
  Object.assign(still, { x: view.x, y: view.y, scale: view.scale, at: performance.now() });
}

function move() {
  const by = view.scale / still.scale;
  const at = (now, then) => (now - then * by) * devicePixelRatio;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = palette.back;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(still.canvas, at(view.x, still.x), at(view.y, still.y), canvas.width * by, canvas.height * by);
}

look();
requestAnimationFrame(frame);
