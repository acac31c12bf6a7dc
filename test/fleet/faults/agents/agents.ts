/** Program: several agents in one process, each with an identity of its own, which work on tasks, fight over them and hand them over. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { takeStep } from "./agent.ts";
import { Crew, type CrewArguments } from "./crew.ts";
import { instant } from "./history.ts";

export interface AgentsArguments extends CrewArguments {
  readonly agents: number;
  /** When the round began, as {@link instant}. */
  readonly beganAt: number;
}

const GENERATION_US = 15_000_000;
const PAUSE_MS = 30;

const o = JSON.parse(process.argv[2]!) as AgentsArguments;
const crew = new Crew(o);

async function live(place: number): Promise<FleetClient> {
  const context = await crew.join(place);
  while (!crew.stopping.aborted) {
    const generation = Math.floor((instant() - o.beganAt) / GENERATION_US);
    await takeStep(context, context.mind.next(generation));
    await sleep(crew.random() * PAUSE_MS);
  }
  return context.client;
}

process.send?.({ ready: true });
await crew.leave(await Promise.all(Array.from({ length: o.agents }, (_, place) => live(place))));
