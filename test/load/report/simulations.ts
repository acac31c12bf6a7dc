// The section of the report about fleets on simulated time.

import { formatNumber } from "../measure/table.ts";
import { commitOf, markdownTable, minuteOf } from "./markdown.ts";
import type { NamedSimulation } from "./results.ts";

const ABOUT_SIMULATIONS = `Whole fleets on simulated time, with faults of bus and store, kills and power cuts; \`npm run simulate -- --record FILE\` writes
the counts. Each history is judged as that of a fault run, and what is stored is verified at its end. A violation ends the run.
[How it works](../README.md#simulation).`;

const HOUR_MS = 3_600_000;

const perHundred = (part: number, all: number): string => formatNumber(all === 0 ? 0 : (100 * part) / all);

function outcomeOf({ failing_seed, simulation }: NamedSimulation): string {
  if (failing_seed !== null) return `**violation**, seed ${failing_seed}`;
  return simulation.ended ? "no violation" : "no violation until it was stopped";
}

/** Nothing without a record. */
export function simulationSection(records: readonly NamedSimulation[]): string[] {
  if (records.length === 0) return [];
  const rows = records.map((record) => {
    const { name, simulation, machine, counts } = record;
    return [
      `[${name}](../simulation/results/${name}.json)`,
      ...[minuteOf(simulation.at), commitOf(simulation), outcomeOf(record)],
      ...[counts.commands, counts.reads, counts.seeds].map(formatNumber),
      perHundred(counts.signing_seeds, counts.seeds),
      perHundred(counts.encrypted_seeds, counts.seeds),
      ...[counts.spooled_commands, counts.launched_agents, counts.simulated_ms / HOUR_MS].map(formatNumber),
      ...[counts.kills, counts.store_faults, counts.refused_zombie_writes].map(formatNumber),
      `${simulation.minutes} min on ${machine.cores} cores`,
    ];
  });
  const head = [
    ...["run", "began", "commit", "outcome", "commands", "reads", "seeds", "signing, %", "encrypted, %"],
    ...[
      "spooled commands",
      "launched agents",
      "simulated hours",
      "kills",
      "faults of the store",
      "refused zombie writes",
      "took",
    ],
  ];
  return ["## Simulations", ABOUT_SIMULATIONS, markdownTable(head, rows)];
}
