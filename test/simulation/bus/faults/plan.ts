/**
 * The faults of the simulated bus, as data: a simulation makes a plan from its seed, and shrinks a failing one by taking parts away. They
 * are those that NATS permits. A message of a stream that was confirmed is never lost, because Fleet demands `sync_interval: always`.
 */

/** A fault at a time, in milliseconds since the start of the server. `connection`: its name. */
export type TimedFault =
  /** The socket breaks. The client connects again. */
  | { readonly kind: "cut"; readonly at: number; readonly connection: string }
  /** Nothing passes, in either direction, and no new socket opens. Neither side notices, except by silence. */
  | { readonly kind: "partition"; readonly at: number; readonly connection: string; readonly forMs: number }
  /** The client reads nothing. The server cuts it off when more than {@link BusFaults.slowConsumerMax} messages wait. */
  | { readonly kind: "stall"; readonly at: number; readonly connection: string; readonly forMs: number }
  /** The server ends without a chance to clean up, and starts again. */
  | { readonly kind: "restart"; readonly at: number; readonly forMs: number };

/** Every member but the first three is a probability, of 0 by default. */
export interface BusFaults {
  /** How long a message travels between a client and the server, in milliseconds, evenly distributed. Default: 1 to 1. */
  readonly hopMs?: { readonly min: number; readonly max: number };
  /** Default 1,000. */
  readonly slowConsumerMax?: number;
  readonly timed?: readonly TimedFault[];
  /** A message takes ten times as long, and messages of other subscriptions overtake it. */
  readonly lateMessage?: number;
  /** A message that one client sends to another is lost: a request, its answer, a heartbeat. */
  readonly lostMessage?: number;
  /** A message was stored, and the confirmation is lost. */
  readonly lostConfirmation?: number;
  /** A consumer's acknowledgement is lost. The message is delivered again. */
  readonly lostAcknowledgement?: number;
  /** A message is delivered again although its wait is not over, as after a change of the consumer's leader. */
  readonly earlyRedelivery?: number;
  /** At a restart, a consumer of a stream with limits has forgotten its latest acknowledgements. */
  readonly forgottenAcknowledgements?: number;
}

export interface SimulatedFate {
  /** Milliseconds. */
  hop(): number;
  isLostMessage(): boolean;
  isLostConfirmation(): boolean;
  isLostAcknowledgement(): boolean;
  /** The part of the wait after which a message is delivered again. 1: all of it. */
  partOfWait(): number;
  hasForgotten(): boolean;
  /** One of so many, from 0. */
  choice(count: number): number;
  readonly slowConsumerMax: number;
  /** No more faults. */
  end(): void;
}

const HOP_MS = { min: 1, max: 1 };
const LATE = 10;
const SLOW_CONSUMER_MAX = 1_000;

/** A probability of 0 takes nothing from `random`, so that the other faults of a seed stay when one is taken away. */
export function fateOf(random: () => number, plan: BusFaults): SimulatedFate {
  let faults = plan;
  const happens = (chance = 0): boolean => chance > 0 && random() < chance;
  return {
    hop() {
      const { min, max } = faults.hopMs ?? HOP_MS;
      const ms = min === max ? min : min + random() * (max - min);
      return happens(faults.lateMessage) ? ms * LATE : ms;
    },
    isLostMessage: () => happens(faults.lostMessage),
    isLostConfirmation: () => happens(faults.lostConfirmation),
    isLostAcknowledgement: () => happens(faults.lostAcknowledgement),
    partOfWait: () => (happens(faults.earlyRedelivery) ? random() : 1),
    hasForgotten: () => happens(faults.forgottenAcknowledgements),
    choice: (count) => (count === 1 ? 0 : Math.floor(random() * count)),
    slowConsumerMax: plan.slowConsumerMax ?? SLOW_CONSUMER_MAX,
    end() {
      faults = plan.hopMs === undefined ? {} : { hopMs: plan.hopMs };
    },
  };
}
