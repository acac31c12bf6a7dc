/**
 * Program: agents that take what others hand over, two of each type in one process. Some die at the worst moments: before they accept,
 * while they do, when they were told and nobody else was, before and while they write their first checkpoint.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../../shared/bus/bus.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { type Deaths, dyingBus } from "../environment/kill-points.ts";
import { Crew, type CrewArguments } from "./crew.ts";
import { type TakerContext, takeOffer } from "./taker.ts";
import { TAKEN_TYPES } from "./workload.ts";

export interface TakersArguments extends CrewArguments {
  /** No more deaths at chosen moments then, as `instant`. */
  readonly deathsUntil: number;
  /** The policy's time for a first checkpoint. */
  readonly firstCheckpointMs: number;
}

const AT_ONCE = 2;
const AGAIN_MS = 300;
const DEATH_SHARE = 0.03;

const o = JSON.parse(process.argv[2]!) as TakersArguments;
const crew = new Crew(o);
const deaths: Deaths = { untilUs: o.deathsUntil, share: DEATH_SHARE, random: crew.random };
const dying = (bus: Bus): Bus => dyingBus(bus, "taker", deaths);

/** Two of one type, so that one can be asked to take what the other is about to take. */
async function pair(agentType: string, place: number): Promise<FleetClient[]> {
  const [first, second] = await Promise.all([crew.join(2 * place, dying), crew.join(2 * place + 1, dying)]);
  const rest = {
    deaths,
    wasSentAgain: (id: string) => crew.recorder.wasSentAgain(id),
    stopping: crew.stopping,
  };
  const contexts: TakerContext[] = [
    { ...first, ...rest, rival: second, firstCheckpointMs: o.firstCheckpointMs },
    { ...second, ...rest, rival: first, firstCheckpointMs: o.firstCheckpointMs },
  ];
  await Promise.all(contexts.map((context) => attend(agentType, context)));
  return contexts.map(({ client }) => client);
}

/** Takes offers until the end; where there is no bus yet, it asks again. */
async function attend(agentType: string, context: TakerContext): Promise<void> {
  while (!crew.stopping.aborted) {
    try {
      const stop = await context.client.onOffer(agentType, (offer) => takeOffer(context, offer), {
        concurrency: AT_ONCE,
      });
      await new Promise((resolve) => crew.stopping.addEventListener("abort", resolve, { once: true }));
      return await stop();
    } catch (error) {
      crew.log.warn({ error }, "offers cannot be had yet");
      await sleep(AGAIN_MS);
    }
  }
}

process.send?.({ ready: true });
const clients = await Promise.all(TAKEN_TYPES.map(pair));
await crew.leave(clients.flat());
