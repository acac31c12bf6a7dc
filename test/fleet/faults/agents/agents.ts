/** Program: several agents in one process, each with its own identity, which work on tasks, compete for them and hand them off. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { takeStep } from "./agent.ts";
import { AgentGroup, type AgentGroupArguments } from "./agent-group.ts";
import { instant } from "./history.ts";

export interface AgentsArguments extends AgentGroupArguments {
  readonly agents: number;
  /** The agents wait as long as the SDK does by itself, so that no answer is missing because they gave up. */
  readonly patient: boolean;
  /** The beginning of the round, as {@link instant}. */
  readonly beganAt: number;
}

const GENERATION_US = 15_000_000;
const PAUSE_MS = 30;
/** A machine that starts many processes may be busy for seconds. */
const PATIENT_MS = 30_000;

const o = JSON.parse(process.argv[2]!) as AgentsArguments;
const group = new AgentGroup(o);

async function runOne(index: number): Promise<FleetClient> {
  const context = { ...(await group.connect(index)), ...(o.patient && { deadlineMs: PATIENT_MS }) };
  while (!group.stopping.aborted) {
    const generation = Math.floor((instant() - o.beganAt) / GENERATION_US);
    await takeStep(context, context.behaviour.next(generation));
    await sleep(group.random() * PAUSE_MS);
  }
  return context.client;
}

process.send?.({ ready: true });
await group.stop(await Promise.all(Array.from({ length: o.agents }, (_, index) => runOne(index))));
