/**
 * Program: agents that accept handoffs, two of each type in one process. Some are killed at kill points: before, during and after the
 * acceptance, and before and during the first checkpoint.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Bus } from "../../../../shared/bus/bus.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { type KillPlan, killAt, killableBus } from "../environment/kill-points.ts";
import { AgentGroup, type AgentGroupArguments } from "./agent-group.ts";
import { type TakerContext, takeOffer } from "./taker.ts";
import { TAKEN_TYPES } from "./workload.ts";

export interface TakersArguments extends AgentGroupArguments {
  /** The end of the kills at kill points, as `instant`. */
  readonly killsUntil: number;
  /** The policy's time for a first checkpoint. */
  readonly firstCheckpointMs: number;
}

const OFFER_CONCURRENCY = 2;
const RETRY_MS = 300;
const KILL_SHARE = 0.03;

const o = JSON.parse(process.argv[2]!) as TakersArguments;
const group = new AgentGroup(o);
const kills: KillPlan = { untilUs: o.killsUntil, share: KILL_SHARE, random: group.random, killAt };
const killable = (bus: Bus): Bus => killableBus(bus, "taker", kills);

/** Two agents of one type, so that one can contest the offers of the other. */
async function runPair(agentType: string, index: number): Promise<FleetClient[]> {
  const [first, second] = await Promise.all([
    group.connect(2 * index, killable),
    group.connect(2 * index + 1, killable),
  ]);
  const rest = {
    kills,
    wasRepeated: (id: string) => group.recorder.wasRepeated(id),
    stopping: group.stopping,
  };
  const contexts: TakerContext[] = [
    { ...first, ...rest, rival: second, firstCheckpointMs: o.firstCheckpointMs },
    { ...second, ...rest, rival: first, firstCheckpointMs: o.firstCheckpointMs },
  ];
  await Promise.all(contexts.map((context) => takeOffers(agentType, context)));
  return contexts.map(({ client }) => client);
}

/** Takes offers until the stop; retries while the bus is unavailable. */
async function takeOffers(agentType: string, context: TakerContext): Promise<void> {
  while (!group.stopping.aborted) {
    try {
      const stop = await context.client.onOffer(agentType, (offer) => takeOffer(context, offer), {
        concurrency: OFFER_CONCURRENCY,
      });
      await new Promise((resolve) => group.stopping.addEventListener("abort", resolve, { once: true }));
      return await stop();
    } catch (error) {
      group.log.warn({ error }, "offers are not available yet");
      await sleep(RETRY_MS);
    }
  }
}

process.send?.({ ready: true });
const clients = await Promise.all(TAKEN_TYPES.map(runPair));
await group.stop(clients.flat());
