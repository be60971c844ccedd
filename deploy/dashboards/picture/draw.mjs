// Draws the dashboard with the answers that ask.mjs has kept, and takes the picture in a headless Chromium:
//
//   node draw.mjs ANSWERS.json PICTURE.png
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { context } from 'esbuild';
import sharp from 'sharp';
import { pageHeight, width } from './layout.mjs';

const [answers, picture] = process.argv.slice(2).map((file) => resolve(file));
const here = fileURLToPath(new URL('.', import.meta.url));
// As the tests look for it, see tests/e2e/src/browser.rs.
const browser = process.env.WEFT_TEST_BROWSER ?? 'chromium-headless-shell';
const dashboard = JSON.parse(await readFile(new URL('../weft.json', import.meta.url)));

const work = await mkdtemp(join(tmpdir(), 'weft-dashboard-'));
try {
  // Components load their icons from where Grafana's server has them.
  await mkdir(join(work, 'public/build'), { recursive: true });
  await symlink(join(here, 'node_modules/@grafana/ui/dist/public/img'), join(work, 'public/build/img'));
  await writeFile(join(work, 'index.html'), `<!doctype html>
    <meta charset="utf-8">
    <link rel="stylesheet" href="page.css">
    <div id="root"></div>
    <script src="page.js"></script>`);
  const page = await context({
    entryPoints: [join(here, 'page.jsx')],
    outdir: work,
    bundle: true,
    jsx: 'automatic',
    alias: { answers },
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
    // The last are icons of an editor that no panel has.
    loader: { '.woff': 'dataurl', '.woff2': 'dataurl', '.ttf': 'empty' },
    logLevel: 'warning',
  });
  await page.rebuild();
  const { port } = await page.serve({ servedir: work, host: '127.0.0.1' });
  await take(`http://127.0.0.1:${port}/`);
  await page.dispose();
  // As many colours as a palette holds: a third of the size, and no eye can tell.
  await sharp(join(work, 'picture.png')).png({ palette: true, effort: 10 }).toFile(picture);
} finally {
  await rm(work, { recursive: true });
}

function take(url) {
  const args = [
    '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--disable-dev-shm-usage',
    `--user-data-dir=${join(work, 'profile')}`, `--window-size=${width},${pageHeight(dashboard)}`, '--virtual-time-budget=15000',
    '--enable-logging=stderr', `--screenshot=${join(work, 'picture.png')}`, url,
  ];
  return new Promise((resolve, reject) => {
    const child = spawn(browser, args, { stdio: ['ignore', 'inherit', 'pipe'] });
    let said = '';
    child.stderr.on('data', (text) => { said += text; });
    child.on('error', reject);
    child.on('exit', (code) => {
      const errors = said.split('\n').filter((line) => line.includes('CONSOLE'));
      if (code === 0 && !errors.some((line) => /Error/.test(line))) resolve();
      else reject(new Error(`${browser} ended with ${code}: ${errors.join('\n') || said}`));
    });
  });
}
