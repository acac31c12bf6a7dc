/** Taking offers, for each agent type as many at once as agents of it may run. A hand stays busy as long as its agent lives. */
import type { OfferData } from "../../shared/protocol/offer.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { retry } from "../../shared/runtime/retry.ts";
import { aborted } from "../../shared/runtime/when-aborted.ts";
import type { OfferInHand } from "../../shared/sdk/offers.ts";
import type { FleetClient } from "../../shared/sdk/sdk.ts";
import type { Agents } from "./agents.ts";

const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 500, maxMs: 5_000 } as const;

export interface OffersParts {
  readonly client: FleetClient;
  readonly agents: Agents;
  /** By agent type, how many at once. */
  readonly types: ReadonlyMap<string, number>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Resolves at once; while the bus or the stream of offers is away it is tried again. Stop waits for the agents whose offers it holds. */
export function startOffers(parts: OffersParts): Stop {
  const stopping = new AbortController();
  const takers = [...parts.types].map(([type, most]) => takeType(parts, type, most, stopping.signal));
  return async () => {
    stopping.abort();
    await Promise.all(takers.map(async (taker) => (await taker)?.()));
  };
}

async function takeType(
  { client, agents, clock, log }: OffersParts,
  type: string,
  concurrency: number,
  signal: AbortSignal,
): Promise<Stop | undefined> {
  const onVoid = ({ task_id, handoff_id }: OfferData): void =>
    log.debug({ agent_type: type, task_id, handoff_id }, "offer is void");
  try {
    return await retry({ ...RETRY, clock, signal }, async (attempt) => {
      try {
        return await client.onOffer(type, (offer) => handle(agents, offer), { concurrency, onVoid });
      } catch (error) {
        if (attempt === 1) log.warn({ agent_type: type, error }, "offers cannot be taken yet");
        throw error;
      }
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    return undefined;
  }
}

async function handle(agents: Agents, offer: OfferInHand): Promise<void> {
  const { agent_type } = offer.data;
  const taken = await agents.take(offer.event);
  if (taken === null) {
    // Before the hand asks for more there must be room again, here or for the next runner.
    offer.decline();
    await agents.roomFor(agent_type, offer.signal);
    return;
  }
  offer.settle();
  await Promise.race([taken.over, aborted(offer.signal)]);
}
