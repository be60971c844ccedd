// Draws the map on a canvas. Colour never says anything alone: what is slow has long dashes, what is refused short ones and a mark.

import { CARD } from "/layout.js";

/** Round trips beyond this many microseconds are slow. */
export const SLOW_US = 5_000;
/** Below this scale cards have no second line, and below the next one no text at all. */
const SMALL = 0.55;
const TINY = 0.28;
/** Edges with a rate beside them: more would be a carpet. */
const MOST_LABELS = 60;

/** What an edge is: what is drawn follows from it. */
export function sortOf(edge) {
  if (edge.denied > 0) return "denied";
  if (edge.opened === 0 && edge.sent + edge.received === 0) return "idle";
  return edge.rtt && edge.rtt[1] > SLOW_US ? "slow" : "ok";
}

const DASHES = { ok: [], idle: [], slow: [9, 3], denied: [3, 4] };

/** The page's colours, from its style sheet. */
export function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "paper", "ink", "soft", "rule", "ok", "slow", "denied", "idle", "focus"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Where an edge runs: from the right side of a card to the left side of another. */
export function curve(from, to) {
  const half = CARD.width / 2;
  if (from === to) {
    return { x0: from.x + half, y0: from.y - 8, x1: from.x + half + 46, y1: from.y - 60, x2: from.x - half - 46, y2: from.y - 60, x3: from.x - half, y3: from.y - 8 };
  }
  const x0 = from.x + half;
  const x3 = to.x - half;
  const reach = x3 > x0 ? (x3 - x0) / 2 : 60 + Math.abs(x3 - x0) / 6;
  // One that goes back bows out, so that it is told from the one that it answers.
  const bow = x3 > x0 ? 0 : 70;
  return { x0, y0: from.y, x1: x0 + reach, y1: from.y + bow, x2: x3 - reach, y2: to.y + bow, x3, y3: to.y };
}

/** A point of a curve. */
export function point(c, t) {
  const u = 1 - t;
  const mix = (a, b, d, e) => u * u * u * a + 3 * u * u * t * b + 3 * u * t * t * d + t * t * t * e;
  return { x: mix(c.x0, c.x1, c.x2, c.x3), y: mix(c.y0, c.y1, c.y2, c.y3) };
}

/** Pixels, by how many connections there are a second. */
export function widthOf(edge) {
  return 1.2 + Math.min(5, Math.log2(1 + edge.opened + edge.denied));
}

/**
 * Draws everything.
 * @param {CanvasRenderingContext2D} context
 * @param {object} scene nodes with `at`, edges with `curve` and `sort`, and what is chosen
 * @param {{x: number, y: number, scale: number}} view
 */
export function draw(context, scene, view, ratio, palette) {
  const { canvas } = context;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.fillStyle = palette.back;
  context.fillRect(0, 0, canvas.width, canvas.height);
  const scale = view.scale * ratio;
  context.setTransform(scale, 0, 0, scale, view.x * ratio, view.y * ratio);
  const labelled = scene.edges.length <= MOST_LABELS && view.scale > SMALL;
  drawEdges(context, scene, palette, labelled);
  if (labelled) drawRates(context, scene, palette);
  for (const node of scene.nodes) drawCard(context, node, scene, view.scale, palette);
}

/** One stroke for all edges that look alike: thousands of strokes would take longer than a frame. */
function drawEdges(context, scene, palette, labelled) {
  const alike = new Map();
  for (const edge of scene.edges) {
    const faint = scene.isFaint(edge);
    const width = edge === scene.edge ? widthOf(edge) + 2 : Math.round(widthOf(edge));
    const look = `${edge.sort} ${width} ${faint}`;
    if (!alike.has(look)) alike.set(look, { sort: edge.sort, width, faint, edges: [] });
    alike.get(look).edges.push(edge);
  }
  const order = ["idle", "ok", "slow", "denied"];
  const looks = [...alike.values()].sort((a, b) => b.faint - a.faint || order.indexOf(a.sort) - order.indexOf(b.sort));
  const many = scene.edges.length > 400;
  for (const { sort, width, faint, edges } of looks) {
    context.globalAlpha = faint ? 0.08 : many && sort !== "denied" ? 0.45 : 0.9;
    context.strokeStyle = context.fillStyle = palette[sort];
    context.lineWidth = many ? width * 0.7 : width;
    // Thousands of dashed curves cannot be drawn in time; refusals keep their marks.
    context.setLineDash(many ? [] : DASHES[sort]);
    context.beginPath();
    for (const { curve: c } of edges) {
      context.moveTo(c.x0, c.y0);
      context.bezierCurveTo(c.x1, c.y1, c.x2, c.y2, c.x3, c.y3);
    }
    context.stroke();
    context.setLineDash([]);
    if (!faint) drawEnds(context, edges, sort, width, labelled ? null : palette);
  }
  context.globalAlpha = 1;
}

/** An arrow at each end; on what was refused also a ring with a bar through it, unless a label says so (`palette` is null). */
function drawEnds(context, edges, sort, width, palette) {
  const size = 5 + width;
  context.beginPath();
  for (const { curve: c } of edges) {
    context.moveTo(c.x3, c.y3);
    context.lineTo(c.x3 - size, c.y3 - size / 2);
    context.lineTo(c.x3 - size, c.y3 + size / 2);
  }
  context.fill();
  if (sort !== "denied" || !palette) return;
  context.fillStyle = palette.paper;
  context.lineWidth = 2;
  context.beginPath();
  for (const edge of edges) {
    const { x, y } = point(edge.curve, 0.62);
    context.moveTo(x + 7, y);
    context.arc(x, y, 7, 0, 2 * Math.PI);
    context.moveTo(x - 4, y + 4);
    context.lineTo(x + 4, y - 4);
  }
  context.fill();
  context.stroke();
}

function drawRates(context, scene, palette) {
  context.font = "600 11px " + scene.font;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const edge of scene.edges) {
    if (scene.isFaint(edge) || !edge.label) continue;
    const { x, y } = point(edge.curve, 0.56);
    edge.labelWidth ??= context.measureText(edge.label).width;
    context.fillStyle = palette.back;
    context.beginPath();
    context.roundRect(x - edge.labelWidth / 2 - 6, y - 9, edge.labelWidth + 12, 18, 9);
    context.fill();
    context.fillStyle = palette[edge.sort === "idle" ? "soft" : edge.sort];
    context.fillText(edge.label, x, y + 0.5);
  }
}

function drawCard(context, node, scene, scale, palette) {
  const { x, y } = node.at;
  const left = x - CARD.width / 2;
  const top = y - CARD.height / 2;
  context.globalAlpha = scene.isFaintNode(node) ? 0.25 : 1;
  context.fillStyle = palette.paper;
  context.strokeStyle = node === scene.node ? palette.focus : node.denied > 0 ? palette.denied : palette.rule;
  context.lineWidth = node === scene.node ? 3 : 1.5;
  context.beginPath();
  context.roundRect(left, top, CARD.width, CARD.height, 9);
  context.fill();
  context.stroke();
  // A band in the colour of its namespace; the name stands beside it.
  context.fillStyle = node.hue;
  context.beginPath();
  context.roundRect(left + 6, top + 8, 4, CARD.height - 16, 2);
  context.fill();
  if (scale > TINY) {
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = palette.ink;
    const alone = scale < SMALL || !node.namespace;
    context.font = (scale < SMALL ? "650 17px " : "600 13px ") + scene.font;
    context.fillText(node.short ?? node.name, left + 18, alone ? y : y - 8, CARD.width - 26);
    if (!alone) {
      context.font = "11px " + scene.font;
      context.fillStyle = palette.soft;
      context.fillText(node.line, left + 18, y + 10, CARD.width - 26);
    }
  }
  context.globalAlpha = 1;
}
