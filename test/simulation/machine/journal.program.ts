/**
 * Program: cuts the power after a runner has begun the records of agents, once for each seed from its first argument to its second. Prints the number
 * of records that were begun, and of those that the next runner finds.
 */
import { join } from "node:path";
import { type AgentRecord, Journal } from "../../../services/runner/journal.ts";
import { SILENT_LOG } from "../silent-log.ts";
import { simulate } from "../time/run.ts";
import { SIMULATED_FOLDER } from "./file-system.ts";
import { useLoneMachine } from "./machine.ts";

const LIMITS = { limitMs: 60_000, eventsMax: 10_000 };
const FOLDER = join(SIMULATED_FOLDER, "runner", "agents");
const AGENTS = 3;

export interface JournalFindings {
  begun: number;
  found: number;
}

const [first, last] = process.argv.slice(2).map(Number) as [number, number];
const findings: JournalFindings = { begun: 0, found: 0 };
for (let seed = first; seed <= last; seed += 1)
  await simulate(seed, LIMITS, async () => {
    const machine = useLoneMachine(seed);
    const journal = new Journal(FOLDER, SILENT_LOG);
    for (let n = 0; n < AGENTS; n += 1) {
      const record = { agent_id: `agent-${n}`, state: "accepting", created_at: new Date().toISOString() };
      journal.open(record as AgentRecord, "the prompt");
    }
    machine.cutPower();
    findings.begun += AGENTS;
    findings.found += new Journal(FOLDER, SILENT_LOG).all().length;
  });
process.stdout.write(JSON.stringify(findings));
