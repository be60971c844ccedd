// The dashboard as a page. Everything in a panel is drawn by @grafana/ui and @grafana/data; what is here is what Grafana's
// server and its plugins do around them: put answers into frames, and panels in their places.
import { createRoot } from 'react-dom/client';
import {
  FieldConfigOptionsRegistry, FieldType, ThemeContext, VizOrientation, applyFieldOverrides, createTheme, dateTime,
  getDisplayValueAlignmentFactors, getFieldDisplayValues,
} from '@grafana/data';
import { BarGauge, BigValue, GlobalStyles, Icon, PanelChrome, TimeSeries, VizRepeater } from '@grafana/ui';
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import dashboard from '../weft.json';
import { start, end, step, answers } from 'answers';
import { bar, edge, gridHeight, place, width } from './layout.mjs';

const theme = createTheme({ colors: { mode: 'light' } });
const timeZone = 'utc';
const timeRange = { from: dateTime(start * 1000), to: dateTime(end * 1000) };
timeRange.raw = timeRange;
// No title and no name has a variable in it.
const replaceVariables = (text) => text;

// Grafana fills in what the panel's JSON leaves out.
const timeSeriesDefaults = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', axisPlacement: 'auto',
  showPoints: 'auto', pointSize: 5, spanNulls: false, stacking: { mode: 'none', group: 'A' }, scaleDistribution: { type: 'linear' },
  thresholdsStyle: { mode: 'off' }, hideFrom: { legend: false, tooltip: false, viz: false }, axisBorderShow: false,
};

// One option of a field's config for each that the dashboard sets: Grafana's own list has an editor for each besides.
function options(defaults) {
  const option = (isCustom) => (path) => ({
    id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, process: (value) => value, shouldApply: () => true,
  });
  const { custom = {}, ...plain } = defaults;
  return new FieldConfigOptionsRegistry(() => [...Object.keys(plain).map(option(false)), ...Object.keys(custom).map(option(true))]);
}

const named = (format, labels) => format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');

// One frame for each series, as the Prometheus data source makes them: without an answer for a moment there is a null.
function frames({ id, type, targets, fieldConfig }) {
  const found = targets.flatMap(({ refId, legendFormat }, index) => answers[id][index].map(({ metric, values }) => {
    const at = new Map(values.map(([time, value]) => [Number(time), Number(value)]));
    const times = Array.from({ length: (end - start) / step + 1 }, (_, n) => start + n * step);
    const name = named(legendFormat, metric);
    return {
      refId, name, length: times.length,
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: times.map((time) => time * 1000) },
        {
          name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: name },
          values: times.map((time) => (Number.isFinite(at.get(time)) ? at.get(time) : null)),
        },
      ],
    };
  }));
  const config = structuredClone(fieldConfig);
  if (type === 'timeseries') config.defaults.custom = { ...timeSeriesDefaults, ...config.defaults.custom };
  return applyFieldOverrides({
    data: found, fieldConfig: config, fieldConfigRegistry: options(config.defaults), replaceVariables, theme, timeZone,
  });
}

function shown({ options: { reduceOptions }, fieldConfig }, data, sparkline) {
  return getFieldDisplayValues({ data, reduceOptions, fieldConfig, replaceVariables, sparkline, theme, timeZone });
}

function Stat({ panel, data, width, height }) {
  const values = shown(panel, data, panel.options.graphMode !== 'none');
  return (
    <VizRepeater source={data} getValues={() => values} renderCounter={0} orientation={VizOrientation.Auto} autoGrid
      width={width} height={height} getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value: { display, sparkline }, width, height, count, alignmentFactors }) => (
        <BigValue {...panel.options} justifyMode="auto" value={display} sparkline={sparkline && { ...sparkline, timeRange }}
          count={count} alignmentFactors={alignmentFactors} width={width} height={height} theme={theme} />
      )} />
  );
}

function Bars({ panel, data, width, height }) {
  const values = shown(panel, data, false);
  const { displayMode, orientation } = panel.options;
  return (
    <VizRepeater source={data} getValues={() => values} renderCounter={0} orientation={orientation} width={width} height={height}
      getAlignmentFactors={getDisplayValueAlignmentFactors} minVizHeight={16} maxVizHeight={300} itemSpacing={10}
      renderValue={({ value: { field, display, view, colIndex }, width, height, alignmentFactors }) => (
        <BarGauge field={field} value={display} display={view?.getFieldDisplayProcessor(colIndex)} displayMode={displayMode}
          orientation={orientation} valueDisplayMode="color" showUnfilled alignmentFactors={alignmentFactors}
          width={width} height={height} theme={theme} />
      )} />
  );
}

function Lines({ panel, data, width, height }) {
  const legend = { showLegend: true, ...panel.options.legend };
  return <TimeSeries frames={data} timeRange={timeRange} timeZone={timeZone} legend={legend} width={width} height={height} />;
}

const kinds = { stat: Stat, bargauge: Bars, timeseries: Lines };

function Panel({ panel }) {
  const Kind = kinds[panel.type];
  if (!Kind) throw new Error(`a panel of type ${panel.type}: page.jsx does not draw these yet`);
  const { width, height, ...where } = place(panel.gridPos);
  return (
    <div style={{ position: 'absolute', ...where }}>
      <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
        {(width, height) => <Kind panel={panel} data={frames(panel)} width={width} height={height} />}
      </PanelChrome>
    </div>
  );
}

const Row = ({ panel: row }) => (
  <div style={{ position: 'absolute', ...place(row.gridPos), display: 'flex', alignItems: 'center', gap: 8, ...theme.typography.h6 }}>
    <Icon name="angle-down" /> {row.title}
  </div>
);

function Variable({ label, value }) {
  const border = `1px solid ${theme.colors.border.medium}`;
  const borderRadius = theme.shape.radius.default;
  const box = { display: 'flex', alignItems: 'center', gap: 8, height: bar, padding: '0 8px', border, borderRadius };
  return (
    <div style={{ display: 'flex' }}>
      {label && <div style={{ ...box, borderRight: 0, fontWeight: 500, fontSize: 12 }}>{label}</div>}
      <div style={{ ...box, background: theme.components.input.background }}>{value} <Icon name="angle-down" /></div>
    </div>
  );
}

function Dashboard() {
  const time = (seconds) => dateTime(seconds * 1000).utc().format('YYYY-MM-DD HH:mm:ss');
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div id="dashboard" style={{ width, padding: edge, background: theme.colors.background.canvas }}>
        <div style={{ display: 'flex', gap: 8, alignItems: 'center', height: bar, marginBottom: edge }}>
          <h1 style={{ ...theme.typography.h3, margin: '0 16px 0 0' }}>{dashboard.title}</h1>
          {dashboard.templating.list.map(({ name, label, type }) => (
            <Variable key={name} label={label} value={type === 'datasource' ? 'Prometheus' : 'All'} />
          ))}
          <div style={{ flex: 1 }} />
          <Variable value={<><Icon name="clock-nine" /> {time(start)} to {time(end)}</>} />
        </div>
        <div style={{ position: 'relative', height: gridHeight(dashboard) }}>
          {dashboard.panels.map((panel) => {
            const Part = panel.type === 'row' ? Row : Panel;
            return <Part key={panel.id} panel={panel} />;
          })}
        </div>
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<Dashboard />);
