/** The dashboards of boards.ts in the form of Grafana, which reads one file for each. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BOARDS, type Board, type Panel } from "./boards.ts";

export const DASHBOARDS = fileURLToPath(new URL("dashboards/", import.meta.url));

/** The grid of Grafana has 24 columns. */
const WIDTH = 12;
const HEIGHT = 8;
/** Of Grafana's model; it migrates older ones by itself. */
const SCHEMA_VERSION = 39;
// biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of Grafana
const DATA_SOURCE = { type: "prometheus", uid: "${datasource}" } as const;

/** The text of each file by its name. */
export const dashboards = (): Map<string, string> =>
  new Map(Object.entries(BOARDS).map(([name, board]) => [`${name}.json`, dashboard(name, board)]));

/** One line for each panel. */
function dashboard(name: string, { title, panels }: Board): string {
  const head = {
    uid: `fleet-${name}`,
    title: `Fleet / ${title}`,
    tags: ["fleet"],
    schemaVersion: SCHEMA_VERSION,
    editable: false,
    refresh: "30s",
    time: { from: "now-6h", to: "now" },
    templating: {
      list: [{ name: "datasource", label: "Data source", type: "datasource", query: "prometheus" }],
    },
  };
  const lines = panels.map((panel, index) => JSON.stringify(drawn(panel, index)));
  return `${JSON.stringify(head).slice(0, -1)},"panels":[\n${lines.join(",\n")}\n]}\n`;
}

function drawn({ title, unit, lines }: Panel, index: number): object {
  return {
    id: index + 1,
    type: "timeseries",
    title,
    datasource: DATA_SOURCE,
    gridPos: {
      x: (index % 2) * WIDTH,
      y: Math.floor(index / 2) * HEIGHT,
      w: WIDTH,
      h: HEIGHT,
    },
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: Object.entries(lines).map(([expr, legendFormat], target) => ({
      refId: String.fromCharCode("A".charCodeAt(0) + target),
      datasource: DATA_SOURCE,
      expr,
      legendFormat,
    })),
  };
}

if (import.meta.main) {
  mkdirSync(DASHBOARDS, { recursive: true });
  const files = dashboards();
  for (const name of readdirSync(DASHBOARDS)) if (!files.has(name)) rmSync(`${DASHBOARDS}${name}`);
  for (const [name, text] of files) writeFileSync(`${DASHBOARDS}${name}`, text);
  process.stdout.write(`${files.size} dashboards written to ${DASHBOARDS}\n`);
}
