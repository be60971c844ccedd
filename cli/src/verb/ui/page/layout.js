// Where workloads stand: in columns from left to right, those who ask before those who answer.
// The same workloads and edges always give the same picture, so that it does not move under the reader's eyes.

/** Width and height of a card, and the room between cards. */
export const CARD = { width: 168, height: 46, gapX: 150, gapY: 26 };
/** Fewer workloads than this are few. */
const FEW = 40;
/** The picture's width, as a multiple of its height. */
const WIDE = 1.6;
/** Passes that move cards next to those they talk to. */
const PASSES = 8;

/**
 * Places each of `count` nodes.
 * @param {number} count
 * @param {{from: number, to: number}[]} edges
 * @returns {{x: number, y: number}[]} centres of cards
 */
export function layout(count, edges) {
  const rank = ranks(count, edges);
  const columns = [];
  for (let node = 0; node < count; node++) (columns[rank[node]] ??= []).push(node);
  const order = arranged(columns.filter(Boolean), neighbours(count, edges), count);
  return place(order, count);
}

/** Column of each node: after all whose connections reach it, but where they go round in a circle. */
function ranks(count, edges) {
  const outgoing = Array.from({ length: count }, () => []);
  for (const { from, to } of edges) if (from !== to) outgoing[from].push(to);
  const state = new Uint8Array(count); // 0: not seen, 1: on the way, 2: done
  const done = [];
  const forward = Array.from({ length: count }, () => []);
  for (let start = 0; start < count; start++) {
    if (state[start]) continue;
    const way = [[start, 0]];
    state[start] = 1;
    while (way.length) {
      const top = way[way.length - 1];
      const next = outgoing[top[0]][top[1]++];
      if (next === undefined) {
        state[top[0]] = 2;
        done.push(top[0]);
        way.pop();
      } else if (state[next] !== 1) {
        // An edge back to one that is on the way closes a circle: it has no say in who comes first.
        forward[top[0]].push(next);
        if (!state[next]) {
          state[next] = 1;
          way.push([next, 0]);
        }
      }
    }
  }
  const rank = new Int32Array(count);
  for (const node of done.reverse()) {
    for (const next of forward[node]) rank[next] = Math.max(rank[next], rank[node] + 1);
  }
  return limited(rank, count);
}

/** Columns of a picture that is WIDE. */
function columnsOf(count) {
  const pitch = (CARD.height + CARD.gapY) / (CARD.width + CARD.gapX);
  return Math.max(4, Math.round(Math.sqrt(WIDE * pitch * count)));
}

/** No more columns than a screen has room for. */
function limited(rank, count) {
  const most = columnsOf(count);
  const deepest = rank.reduce((a, b) => Math.max(a, b), 0);
  if (deepest < most) return rank;
  return rank.map((r) => Math.round((r * (most - 1)) / deepest));
}

function neighbours(count, edges) {
  const all = Array.from({ length: count }, () => []);
  for (const { from, to } of edges) {
    all[from].push(to);
    all[to].push(from);
  }
  return all;
}

/** Within columns: each card at the mean height of those it talks to. */
function arranged(columns, beside, count) {
  const height = new Float64Array(count);
  const settle = (column) => column.forEach((node, place) => (height[node] = place - (column.length - 1) / 2));
  columns.forEach(settle);
  for (let pass = 0; pass < PASSES; pass++) {
    const way = pass % 2 ? [...columns].reverse() : columns;
    for (const column of way) {
      const mean = new Map(column.map((node) => [node, average(beside[node], height, height[node])]));
      column.sort((a, b) => mean.get(a) - mean.get(b) || a - b);
      settle(column);
    }
  }
  return columns;
}

function average(nodes, height, own) {
  if (!nodes.length) return own;
  let sum = 0;
  for (const node of nodes) sum += height[node];
  return sum / nodes.length;
}

function place(columns, count) {
  // A few workloads may have the room for themselves.
  const pitch = CARD.height + (count < FEW ? 2 * CARD.gapY : CARD.gapY);
  // Cards above each other, before another column is begun beside them.
  const most = Math.max(10, Math.ceil((1.5 * count) / columnsOf(count)));
  const at = Array.from({ length: count }, () => ({ x: 0, y: 0 }));
  let x = 0;
  for (const column of columns) {
    const parts = Math.ceil(column.length / most);
    const size = Math.ceil(column.length / parts);
    for (let part = 0; part < parts; part++) {
      const cards = column.slice(part * size, (part + 1) * size);
      cards.forEach((node, n) => {
        at[node] = { x, y: (n - (cards.length - 1) / 2) * pitch };
      });
      x += CARD.width + (part + 1 < parts ? CARD.gapX / 3 : CARD.gapX);
    }
  }
  return at;
}
