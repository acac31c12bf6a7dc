/**
 * Program: several workers in one process, written with the SDK as agents are. Each accepts one offer after the other and executes the task.
 * A fault of the process affects all of them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { AgentGroup, type AgentGroupArguments } from "../agents/agent-group.ts";
import { isHit, type KillPlan, killAt, killableBus } from "../environment/kill-points.ts";
import { withCalls } from "./calls.ts";
import { HEARTBEAT_MS, WORKER } from "./task-kinds.ts";
import { WorkFailure, work } from "./worker.ts";

export interface WorkersArguments extends AgentGroupArguments {
  readonly workers: number;
  /** The end of the kills at kill points and of random failures, as `instant`. */
  readonly killsUntil: number;
}

/** The message to the parent with which a worker requests damage. */
export interface DamageRequest {
  readonly damage: { readonly task: string; readonly checkpointId: string };
}

const KILL_SHARE = 0.004;
const RETRY_MS = 300;

const o = JSON.parse(process.argv[2]!) as WorkersArguments;
const group = new AgentGroup(o);
const { runAgent, classOfError } = await group.sdk;
const kills: KillPlan = { untilUs: o.killsUntil, share: KILL_SHARE, random: group.random, killAt };

async function runOne(index: number): Promise<FleetClient> {
  const { client } = await group.connect(index, (bus) => killableBus(withCalls(bus, group), "worker", kills));
  const context = {
    ...{ agent: client.agentId, history: group.history, random: group.random, kills },
    damage: (task: string, checkpointId: string) =>
      void process.send?.({ damage: { task, checkpointId } } satisfies DamageRequest),
  };
  while (!group.stopping.aborted) {
    try {
      await runAgent({
        fleet: client,
        type: WORKER,
        heartbeatMs: HEARTBEAT_MS,
        signal: group.stopping,
        checkpoints: { items: 1 },
        onOffer: async () => {
          if (isHit(kills)) await killAt("worker before acknowledge");
          return true;
        },
        work: (run) => work(run, context),
        classify: (error) => (error instanceof WorkFailure ? error.class : classOfError(error)),
      });
    } catch (error) {
      if (!(error instanceof WorkFailure)) group.log.warn({ error }, "a worker ended with an error");
      await sleep(group.random() * RETRY_MS);
    }
  }
  return client;
}

process.send?.({ ready: true });
await group.stop(await Promise.all(Array.from({ length: o.workers }, (_, index) => runOne(index))));
