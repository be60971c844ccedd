// Where things stand, in pixels, as Grafana has it: a grid of 24 columns, and rows of 30 pixels with 8 between.
export const width = 1600, edge = 16, bar = 32;
const gap = 8, cell = 30;
const column = (width - 2 * edge + gap) / 24;

export const place = ({ x, y, w, h }) => ({
  left: x * column, top: y * (cell + gap), width: w * column - gap, height: h * (cell + gap) - gap,
});

// Of all panels, and of the whole page.
export const gridHeight = ({ panels }) => Math.max(...panels.map(({ gridPos: { y, h } }) => y + h)) * (cell + gap) - gap;
export const pageHeight = (dashboard) => gridHeight(dashboard) + bar + 3 * edge;
