/**
 * Program: several workers in one process, built with the SDK as agents are. Each takes one task after the other by offers, and carries
 * it out; whatever becomes of the process becomes of all of them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { classOfError } from "../../../../shared/sdk/agent/failure.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { runAgent } from "../../../../shared/sdk/sdk.ts";
import { Crew, type CrewArguments } from "../agents/crew.ts";
import { type Deaths, die, dyingBus, strikes } from "../environment/kill-points.ts";
import { withCalls } from "./calls.ts";
import { HEARTBEAT_MS, WORKER } from "./kinds.ts";
import { Trouble, work } from "./worker.ts";

export interface WorkersArguments extends CrewArguments {
  readonly workers: number;
  /** No more deaths at chosen moments and no more mishaps then, as `instant`. */
  readonly deathsUntil: number;
}

/** What a worker asks its parent for, before it is killed. */
export interface DamageWish {
  readonly damage: { readonly task: string; readonly checkpointId: string };
}

const DEATH_SHARE = 0.004;
const AGAIN_MS = 300;

const o = JSON.parse(process.argv[2]!) as WorkersArguments;
const crew = new Crew(o);
const deaths: Deaths = { untilUs: o.deathsUntil, share: DEATH_SHARE, random: crew.random };

async function live(place: number): Promise<FleetClient> {
  const { client } = await crew.join(place, (bus) => dyingBus(withCalls(bus, crew), "worker", deaths));
  const bench = {
    ...{ agent: client.agentId, history: crew.history, random: crew.random, deaths, die },
    damage: (task: string, checkpointId: string) =>
      void process.send?.({ damage: { task, checkpointId } } satisfies DamageWish),
  };
  while (!crew.stopping.aborted) {
    try {
      await runAgent({
        fleet: client,
        type: WORKER,
        heartbeatMs: HEARTBEAT_MS,
        signal: crew.stopping,
        checkpoints: { items: 1 },
        onOffer: async () => {
          if (strikes(deaths)) await die("worker before acknowledge");
          return true;
        },
        work: (run) => work(run, bench),
        classify: (error) => (error instanceof Trouble ? error.class : classOfError(error)),
      });
    } catch (error) {
      if (!(error instanceof Trouble)) crew.log.warn({ error }, "a worker came to an end");
      await sleep(crew.random() * AGAIN_MS);
    }
  }
  return client;
}

process.send?.({ ready: true });
await crew.leave(await Promise.all(Array.from({ length: o.workers }, (_, place) => live(place))));
