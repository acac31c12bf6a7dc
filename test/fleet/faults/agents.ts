/**
 * Program: several agents in one process, each with an identity of its own, on one connection. It may be killed or paused at any
 * time, like the services; started again, its agents know nothing but their names. `{stop: true}` from the parent ends it well.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLogger } from "../../../shared/runtime/log.ts";
import { seededRandom } from "../../load/workload.ts";
import { takeStep } from "./agent.ts";
import { clientOn } from "./client.ts";
import { Copies } from "./copies.ts";
import { HistoryWriter, instant } from "./history.ts";
import { recordingBus } from "./recording.ts";
import { AgentMind } from "./workload.ts";

export interface AgentsArguments {
  readonly name: string;
  readonly incarnation: number;
  readonly seed: number;
  readonly url: string;
  readonly historyFolder: string;
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

async function connected(): Promise<Bus> {
  for (;;) {
    try {
      return await connectBus({ url: o.url, name: o.name, identity: o.name, log });
    } catch (error) {
      if (isStopping) process.exit();
      log.warn({ error }, "the bus cannot be reached yet");
      await sleep(200);
    }
  }
}

const real = await connected();
const commands = SUBJECTS.everyCommand.slice(0, SUBJECTS.everyCommand.indexOf("*"));
const copies = new Copies({ bus: real, history, random, nextCall });
const recording = recordingBus(real, {
  history,
  copies,
  isCommand: (subject) => subject.startsWith(commands),
});
process.send?.({ ready: true });

async function live(agent: number): Promise<void> {
  const agentId = `${o.name}-${agent}`;
  const client = clientOn(recording.bus, agentId);
  const mind = new AgentMind(agentId, o.seed + agent, random);
  const onDone = (op: string, outcome: string): void => {
    const name = `${op} ${outcome}`;
    done[name] = (done[name] ?? 0) + 1;
  };
  const { answerOf } = recording;
  const context = { client, mind, history, nextCall, random, answerOf, onDone };
  while (!isStopping) {
    const generation = Math.floor((instant() - o.beganAt) / GENERATION_US);
    await takeStep(context, mind.next(generation));
    await sleep(random() * PAUSE_MS);
  }
}

await Promise.all(Array.from({ length: o.agents }, (_, agent) => live(agent)));
await copies.settled();
await history.close();
await real.close();
clearInterval(saying);
say();
process.disconnect?.();
