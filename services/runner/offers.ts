/** Accepts offers. Each agent type has as many offer workers as agents of it may run; a worker is busy until its agent ends. */
import { type Clock, whenAborted } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { withRetries } from "../../shared/runtime/retry.ts";
import type { ReceivedOffer } from "../../shared/sdk/offers.ts";
import type { FleetClient } from "../../shared/sdk/sdk.ts";
import type { Agents } from "./agents.ts";

const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 500, maxMs: 5_000 } as const;

export interface OffersParts {
  readonly client: FleetClient;
  readonly agents: Agents;
  /** The limit of concurrent agents by agent type. */
  readonly types: ReadonlyMap<string, number>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Metrics;
}

/** Returns at once, and retries until the client is connected. `Stop` waits for the agents of accepted offers. */
export function startOffers(parts: OffersParts): Stop {
  const stopping = new AbortController();
  const consumers = [...parts.types].map(([type, limit]) => consumeType(parts, type, limit, stopping.signal));
  return async () => {
    stopping.abort();
    await Promise.all(consumers.map(async (consumer) => (await consumer)?.()));
  };
}

async function consumeType(
  { client, agents, clock, log, metrics }: OffersParts,
  type: string,
  concurrency: number,
  signal: AbortSignal,
): Promise<Stop | undefined> {
  const onRefused = (): void => metrics.runnerOffersRefusedTotal.inc({ agent_type: type });
  try {
    return await withRetries({ ...RETRY, clock, signal }, async (attempt) => {
      try {
        return await client.onOffer(type, (offer) => handle(agents, offer), { concurrency, onRefused });
      } catch (error) {
        if (attempt === 1) log.warn({ agent_type: type, error }, "offers cannot be consumed yet");
        throw error;
      }
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    return undefined;
  }
}

async function handle(agents: Agents, offer: ReceivedOffer): Promise<void> {
  const { agent_type } = offer.data;
  const accepted = await agents.accept(offer.event);
  if (accepted === null) {
    // Waits for capacity before this worker asks for another offer; meanwhile another runner may take this one.
    offer.decline();
    await agents.capacityFor(agent_type, offer.signal);
    return;
  }
  offer.settle();
  await Promise.race([accepted.ended, whenAborted(offer.signal)]);
}
