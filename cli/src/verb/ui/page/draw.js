// Draws the map on a canvas. Colour never says anything alone: what is slow has long dashes, what is refused short ones and a mark.

import { CARD } from "/layout.js";

/** Round trips beyond this many microseconds are slow. */
export const SLOW_US = 5_000;
/** Below this scale cards have no second line, and below the next one no text at all. */
const SMALL = 0.55;
const TINY = 0.28;
/** Edges that are as wide as they are busy. */
const MOST_WIDE = 250;
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

/** Where an edge runs: from the right side of a card to the left side of another, and `bow` higher or lower in between. */
export function curve(from, to, bow = 0) {
  const half = CARD.width / 2;
  if (from === to) {
    return { x0: from.x + half, y0: from.y - 8, x1: from.x + half + 46, y1: from.y - 60, x2: from.x - half - 46, y2: from.y - 60, x3: from.x - half, y3: from.y - 8 };
  }
  const x0 = from.x + half;
  const x3 = to.x - half;
  const reach = x3 > x0 ? (x3 - x0) / 2 : 60 + Math.abs(x3 - x0) / 6;
  // One that goes back bows out, so that it is told from the one that it answers.
  const out = x3 > x0 ? bow : 70;
  return { x0, y0: from.y, x1: x0 + reach, y1: from.y + out, x2: x3 - reach, y2: to.y + out, x3, y3: to.y };
}

/** Bows that are tried, the smallest first, as multiples of a card's height. */
const BOWS = [0, -1.2, 1.2, -2.4, 2.4, -3.6, 3.6];

/** The smallest bow with which an edge runs behind no card but its own two. */
export function freeBow(from, to, cards) {
  const others = cards.filter((at) => at !== from && at !== to && at.x > from.x && at.x < to.x);
  if (!others.length) return 0;
  const hits = (bow) => {
    const c = curve(from, to, bow);
    for (let step = 1; step < 20; step++) {
      const { x, y } = point(c, step / 20);
      if (others.some((at) => Math.abs(at.x - x) < CARD.width / 2 + 4 && Math.abs(at.y - y) < CARD.height / 2 + 4)) return true;
    }
    return false;
  };
  return (BOWS.find((bow) => !hits(bow * CARD.height)) ?? 0) * CARD.height;
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
  const edges = visible(scene, context, view, ratio);
  const labelled = edges.length <= MOST_LABELS && view.scale > SMALL;
  const hairline = edges.length > MOST_WIDE ? 1 / scale : 0;
  drawEdges(context, scene, palette, { edges, hairline, labelled });
  if (labelled) drawRates(context, scene, palette);
  for (const node of scene.nodes) drawCard(context, node, scene, view.scale, palette);
}

/** Edges that reach into what is seen. */
function visible(scene, context, view, ratio) {
  const left = -view.x / view.scale;
  const top = -view.y / view.scale;
  const right = left + context.canvas.width / ratio / view.scale;
  const bottom = top + context.canvas.height / ratio / view.scale;
  return scene.edges.filter(({ curve: c }) =>
    Math.min(c.x0, c.x2) <= right && Math.max(c.x1, c.x3) >= left &&
    Math.min(c.y0, c.y1, c.y2, c.y3) <= bottom && Math.max(c.y0, c.y1, c.y2, c.y3) >= top);
}

/** Edges that look alike are one stroke; where there are many, strokes are hairlines, which take a browser a tenth of the time. */
function drawEdges(context, scene, palette, { edges: seen, hairline, labelled }) {
  const alike = new Map();
  for (const edge of seen) {
    const faint = scene.isFaint(edge);
    const chosen = edge === scene.edge;
    const width = chosen ? widthOf(edge) + 2 : Math.round(widthOf(edge));
    const look = `${edge.sort} ${width} ${faint} ${chosen}`;
    if (!alike.has(look)) alike.set(look, { sort: edge.sort, width, faint, chosen, edges: [] });
    alike.get(look).edges.push(edge);
  }
  const order = ["idle", "ok", "slow", "denied"];
  const looks = [...alike.values()].sort((a, b) => a.chosen - b.chosen || b.faint - a.faint || order.indexOf(a.sort) - order.indexOf(b.sort));
  for (const { sort, width, faint, chosen, edges } of looks) {
    const thin = hairline > 0 && !chosen;
    // A hairline says by its strength how busy it is, and by its colour alone what it is: refusals keep their marks.
    context.globalAlpha = faint ? 0.08 : thin && sort !== "denied" ? Math.min(0.8, 0.15 + width / 10) : 0.9;
    context.strokeStyle = context.fillStyle = palette[sort];
    context.lineWidth = thin ? hairline : width;
    context.setLineDash(thin ? [] : DASHES[sort]);
    context.beginPath();
    for (const { curve: c } of edges) {
      context.moveTo(c.x0, c.y0);
      context.bezierCurveTo(c.x1, c.y1, c.x2, c.y2, c.x3, c.y3);
    }
    context.stroke();
    context.setLineDash([]);
    if (!faint) drawEnds(context, edges, sort, thin ? 2 : width, labelled ? null : palette);
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
