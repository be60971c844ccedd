// Asks a Prometheus what every panel of the dashboard asks, as Grafana would, and keeps the answers:
//
//   PROMETHEUS=http://HOST:PORT node ask.mjs SECONDS ANSWERS.json
import { readFile, writeFile } from 'node:fs/promises';

const [seconds, file] = process.argv.slice(2);
const prometheus = process.env.PROMETHEUS;
const dashboard = JSON.parse(await readFile(new URL('../weft.json', import.meta.url)));

async function api(path, parameters = {}) {
  const answer = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`);
  const { status, data, error } = await answer.json();
  if (status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${error}`);
  return data;
}

// Grafana is told the scrape interval in the settings of its data source; here Prometheus tells it.
const { yaml } = await api('status/config');
const scrape = Number(/scrape_interval: (\d+)s/.exec(yaml)[1]);
const step = scrape;
const variables = { __rate_interval: `${Math.max(step + scrape, 4 * scrape)}s`, __interval: `${step}s` };
for (const { name, allValue } of dashboard.templating.list) if (allValue) variables[name] = allValue;

function substitute(expr) {
  return expr.replace(/\$(\w+)/g, (text, name) => {
    if (!(name in variables)) throw new Error(`nothing to put in place of ${text} in ${expr}`);
    return variables[name];
  });
}

const end = Math.floor(Date.now() / 1000 / step) * step;
const start = end - Number(seconds);
const answers = {};
for (const { id, targets = [] } of dashboard.panels) {
  answers[id] = [];
  for (const { expr } of targets) {
    const { result } = await api('query_range', { query: substitute(expr), start, end, step });
    answers[id].push(result);
  }
}
await writeFile(file, JSON.stringify({ start, end, step, answers }));
