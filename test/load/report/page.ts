// The report as a page: every figure of it comes from the stored runs.

import { BUSY_PERCENT_MAX, describeParts } from "../measure/machine.ts";
import { formatBound, formatNumber } from "../measure/table.ts";
import { UNJUDGED } from "../measure/targets.ts";
import { peersIn } from "../peers/rows.ts";
import { KEY_FIGURES } from "./key-figures.ts";
import { commitOf, markdownTable, minuteOf } from "./markdown.ts";
import type { Plot } from "./plots.ts";
import { type GroupOfRun, type NamedRun, type NamedSimulation, newestGroups, rowOf } from "./results.ts";
import { simulationSection } from "./simulations.ts";

const INTRODUCTION = `# Benchmark report

Written by \`npm run bench:report\` from the runs in [results](results), which \`npm run bench -- --json FILE\` writes. Clients, bus,
services and store share the cores of one machine. A test makes this page again and compares every byte. [How to measure](../README.md#benchmark).`;

const AFTER_RUNS = `A run whose machine was busy with other programs shows slower figures than the fleet has. A quick run shows whether the fleet
works, not how fast. An empty cell was not measured. The sections after the key figures show each group from the newest run that measured it.`;

/** The folder of the plots, as the page names it. */
const PLOTS = "plots";

export function reportPage(
  runs: readonly NamedRun[],
  plots: readonly Plot[],
  simulations: readonly NamedSimulation[],
): string {
  const newest = newestGroups(runs);
  const parts = [
    INTRODUCTION,
    "## Runs",
    runTable(runs),
    ...machines(runs),
    AFTER_RUNS,
    "## Key figures",
    keyTable(runs),
    "## Charts",
    ...plots.map(({ name, title }) => `${title}.\n\n![${title}](${PLOTS}/${name}.svg)`),
    ...newest.filter(({ group }) => group.name === "peers").flatMap(peerSection),
    "## Required, but missed",
    missedList(newest),
    ...simulationSection(simulations),
    "## All figures",
    ...newest.map(figures),
  ];
  return `${parts.join("\n\n")}\n`;
}

const ABOUT_PEERS = `The savers get the fastest form of the work: one \`put\` with one changed channel for each state, without the writes of nodes that
a graph saves as well. They run in the process of their client; a write of the fleet crosses the bus to another process. What each
acknowledged write promises:`;

function peerSection({ run, group }: GroupOfRun): string[] {
  const rows = peersIn(group.rows).map(({ name, promise, perSecond, write, latest }) => [
    ...[name, promise],
    ...[perSecond, write.p50, write.p99, latest.p50, latest.p99].map(formatNumber),
  ]);
  const times = ["write p50, ms", "write p99, ms", "latest p50, ms", "latest p99, ms"];
  return [
    `## Beside LangGraph's savers, on ${group.store}`,
    `${group.about}. Run ${run.name}.`,
    ABOUT_PEERS,
    markdownTable(["", "promise", "commits, /s", ...times], rows),
  ];
}

function loadText({ busy_percent, load_average }: NamedRun["machine"]): string {
  const busy = busy_percent > BUSY_PERCENT_MAX ? "**busy**, " : "";
  return `${busy}${busy_percent} % in use, load ${load_average.join(" ")}`;
}

function runTable(runs: readonly NamedRun[]): string {
  const rows = runs.map(({ name, run, machine, failures }) => [
    `[${name}](results/${name}.json)`,
    minuteOf(run.at),
    `${commitOf(run)}${run.quick ? ", quick run" : ""}`,
    loadText(machine),
    failures.map(({ group }) => group).join(", ") || "none",
  ]);
  return markdownTable(["run", "began", "commit", "machine before the run", "failed groups"], rows);
}

function keyTable(runs: readonly NamedRun[]): string {
  const rows = runs.flatMap((run) =>
    [...new Set(run.groups.map(({ store }) => store))].map((store) => [
      run.name,
      store,
      ...KEY_FIGURES.map(({ group, what }) => {
        const row = rowOf(run, { group, store, what });
        return row === undefined ? "" : formatNumber(row.value);
      }),
    ]),
  );
  return markdownTable(["run", "store", ...KEY_FIGURES.map(({ title }) => title)], rows);
}

/** Each machine once, with its runs. */
function machines(runs: readonly NamedRun[]): string[] {
  const named = new Map<string, string[]>();
  for (const { name, machine } of runs) {
    const parts = describeParts(machine);
    named.set(parts, [...(named.get(parts) ?? []), name]);
  }
  return [...named].map(([parts, names]) => `Machine of ${names.join(", ")}: ${parts}.`);
}

function missedList(newest: readonly GroupOfRun[]): string {
  const missed = newest.flatMap(({ run, group }) =>
    group.rows
      .filter(({ met }) => met === "required missed")
      .map(
        ({ what, value, unit, required }) =>
          `- ${group.name} on ${group.store}, ${what}: ${formatNumber(value)} ${unit}, required ${formatBound(required)} (${run.name})`,
      ),
  );
  const quick = newest.flatMap(({ run, group }) =>
    group.rows.flatMap(({ met }) => (met === UNJUDGED ? [run.name] : [])),
  );
  if (quick.length === 0) return missed.length === 0 ? "No figure." : missed.join("\n");
  const unjudged = `Not judged: a quick run (${[...new Set(quick)].join(", ")}; figures: ${quick.length}).`;
  return missed.length === 0 ? unjudged : `${missed.join("\n")}\n\n${unjudged}`;
}

function figures({ run, group: { name, store, about, rows } }: GroupOfRun): string {
  const cells = rows.map(({ what, value, unit, required, aim, met }) => [
    what,
    formatNumber(value),
    unit,
    formatBound(required),
    formatBound(aim),
    met ?? "",
  ]);
  const table = markdownTable(["", "value", "unit", "required", "aim", "met"], cells);
  return `### ${name} on ${store}\n\n${about}. Run ${run.name}.\n\n${table}`;
}
