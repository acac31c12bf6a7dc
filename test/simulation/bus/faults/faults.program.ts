/**
 * Program: runs scenarios on the simulated bus, each in a simulation of its own, and prints their facts as JSON. Its argument is a list of
 * runs as JSON.
 */
import { simulate } from "../../time/run.ts";
import { MIXTURE, mixture } from "./mixture.ts";
import type { BusFaults } from "./plan.ts";
import { SCENARIOS } from "./scenarios.ts";
import { type ScenarioFacts, setStage } from "./stage.ts";

export interface FaultRun {
  readonly scenario: keyof typeof SCENARIOS | "mixture";
  readonly seed: number;
  readonly faults?: BusFaults;
}

export interface FaultRunResult {
  readonly facts: ScenarioFacts;
  readonly digest: string;
}

const LIMITS = { limitMs: 3_600_000, eventsMax: 5_000_000 };

const results: FaultRunResult[] = [];
for (const { scenario, seed, faults } of JSON.parse(process.argv[2] ?? "[]") as FaultRun[]) {
  const { value } = await simulate(seed, LIMITS, async () => {
    const stage = await setStage(seed, faults ?? (scenario === "mixture" ? MIXTURE : {}));
    const facts = await (scenario === "mixture" ? mixture : SCENARIOS[scenario])(stage);
    return { facts, digest: stage.digest() };
  });
  results.push(value);
}
process.stdout.write(JSON.stringify(results));
