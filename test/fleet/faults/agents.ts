/**
 * Program: several agents in one process, each with an identity of its own, on one connection. It may be killed or paused at any
 * time, like the services; started again, its agents know nothing but their names. `{stop: true}` from the parent ends it well.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../shared/bus/bus.ts";
import { createLogger } from "../../../shared/runtime/log.ts";
import type { FleetClient } from "../../../shared/sdk/client.ts";
import { seededRandom } from "../../load/workload.ts";
import { takeStep } from "./agent.ts";
import { connectAgent } from "./client.ts";
import { Copies } from "./copies.ts";
import { HistoryWriter, instant } from "./history.ts";
import { Recorder } from "./recording.ts";
import { AgentMind } from "./workload.ts";

export interface AgentsArguments {
  readonly name: string;
  readonly incarnation: number;
  readonly seed: number;
  readonly url: string;
  readonly historyFolder: string;
  readonly spoolFolder: string;
  readonly agents: number;
  /** When the round began, as {@link instant}. */
  readonly beganAt: number;
}

/** Tells the parent what was done since the last time; the history holds the truth. */
export interface Progress {
  readonly done: Readonly<Record<string, number>>;
}

const GENERATION_US = 15_000_000;
const PAUSE_MS = 30;
const SAY_EVERY_MS = 500;
const FLUSH_MS = 15_000;
/** Commands were left in a spool. */
const EXIT_SPOOLED = 3;

const o = JSON.parse(process.argv[2]!) as AgentsArguments;
const log = createLogger({ service: o.name, level: "warn" });
const random = seededRandom(o.seed);
const history = new HistoryWriter(join(o.historyFolder, `${o.name}-${o.incarnation}.jsonl`));
let calls = 0;
const nextCall = (): string => `${o.name}/${o.incarnation}/${++calls}`;
let isStopping = false;
let done: Record<string, number> = {};

process.once("disconnect", () => process.exit());
process.on("message", () => {
  isStopping = true;
});
const saying = setInterval(say, SAY_EVERY_MS);

function say(): void {
  process.send?.({ done } satisfies Progress, () => {});
  done = {};
}

const copies = new Copies({ history, random, nextCall });
const recorder = new Recorder(history, copies);

async function live(agent: number): Promise<FleetClient> {
  const agentId = `${o.name}-${agent}`;
  const recorded = (bus: Bus): Bus => recorder.recorded(bus);
  const client = await connectAgent({ url: o.url, agentId, spoolFolder: o.spoolFolder, log, recorded });
  const mind = new AgentMind(agentId, o.seed + agent, random);
  const onDone = (op: string, outcome: string): void => {
    const name = `${op} ${outcome}`;
    done[name] = (done[name] ?? 0) + 1;
  };
  const answerOf = (commandId: string) => recorder.answerOf(commandId);
  const context = { client, mind, history, nextCall, random, answerOf, onDone };
  while (!isStopping) {
    const generation = Math.floor((instant() - o.beganAt) / GENERATION_US);
    await takeStep(context, mind.next(generation));
    await sleep(random() * PAUSE_MS);
  }
  return client;
}

process.send?.({ ready: true });
const clients = await Promise.all(Array.from({ length: o.agents }, (_, agent) => live(agent)));
await copies.settled();
for (const client of clients) {
  // With all repaired, nothing may stay behind on this machine.
  const { commands } = await client.flush({ deadlineMs: FLUSH_MS });
  if (commands > 0) process.exitCode = EXIT_SPOOLED;
  await client.close();
}
await history.close();
clearInterval(saying);
say();
process.disconnect?.();
