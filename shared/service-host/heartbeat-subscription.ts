/**
 * The latest heartbeat of each agent, in memory: heartbeats are not stored, so each process subscribes for
 * itself and forgets old ones. The number of agents is bounded; the agents with the oldest heartbeats are
 * forgotten first. Of thousands of agents almost every heartbeat differs from the previous one in its time
 * alone, so it is decoded only when something else has changed.
 */
import type { Bus, Message } from "../bus/bus.ts";
import { decodeBody } from "../integrity/wire.ts";
import { invalid } from "../protocol/errors.ts";
import { type Heartbeat, heartbeatSchema } from "../protocol/heartbeat.ts";
import { LIMITS } from "../protocol/limits.ts";
import { requireProtocol } from "../protocol/protocol-version.ts";
import { HEADERS, parseHeartbeatSubject, SUBJECTS } from "../protocol/subjects.ts";
import { validate } from "../protocol/validation.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/observability/log.ts";
import type { Stop } from "../runtime/process/service.ts";

/** The latest heartbeat of an agent. Times are by the wall clock of this process. */
export interface LatestHeartbeat {
  readonly tenant: string;
  /** The newest heartbeat, perhaps with an older `sent_at`. */
  readonly beat: Heartbeat;
  readonly firstAt: number;
  readonly lastAt: number;
  /**
   * When the current step is overdue; null if none was declared. Computed from the agent's own times, so its
   * clock may be wrong.
   */
  readonly stepEndsAt: number | null;
}

export interface HeartbeatSubscription {
  readonly since: number;
  /** The recent agents of one tenant, by agent id. */
  of(tenant: string): ReadonlyMap<string, LatestHeartbeat>;
  readonly stop: Stop;
}

export interface HeartbeatSubscriptionOptions {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for each heartbeat, thousands of times a second. */
  readonly onBeat?: (latest: LatestHeartbeat) => void;
}

export async function subscribeHeartbeats({
  bus,
  clock,
  log,
  onBeat,
}: HeartbeatSubscriptionOptions): Promise<HeartbeatSubscription> {
  /** By subject. */
  const agents = new Map<string, Agent>();
  const decode = (message: Message, known: Agent | undefined): Agent | null => {
    const { tenant, agent: id } = parseHeartbeatSubject(message.subject);
    const beat = read(message);
    // The bus authenticates the subject, not the body.
    if (beat.agent_id !== id) return null;
    const agent = known ?? new Agent(tenant, clock.now());
    agent.update(beat, message.body, clock.now());
    return agent;
  };
  const receive = (message: Message): void => {
    const { subject } = message;
    const known = agents.get(subject);
    const agent = known?.repeats(message.body) ? known : decode(message, known);
    if (agent === null) return;
    agent.lastAt = clock.now();
    if (known === undefined) {
      agents.set(subject, agent);
      if (agents.size > LIMITS.agents_remembered_count_max) forgetOldest(agents);
    }
    onBeat?.(agent);
  };
  const stop = await bus.subscribe(SUBJECTS.everyHeartbeat, (message) => {
    try {
      receive(message);
    } catch (error) {
      log.debug({ subject: message.subject, error }, "a heartbeat cannot be read");
    }
  });
  return {
    since: clock.now(),
    of(tenant) {
      const oldest = clock.now() - LIMITS.agent_remembered_ms;
      for (const [subject, { lastAt }] of agents) if (lastAt < oldest) agents.delete(subject);
      return new Map(
        [...agents.values()]
          .filter((agent) => agent.tenant === tenant)
          .map((agent): [string, LatestHeartbeat] => [agent.beat.agent_id, agent])
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    },
    stop,
  };
}

/**
 * Forgets the tenth with the oldest heartbeats, so that a flood of new names does not sort all agents for
 * each.
 */
function forgetOldest(agents: Map<string, Agent>): void {
  const byAge = [...agents].sort(([, a], [, b]) => a.lastAt - b.lastAt);
  for (const [subject] of byAge.slice(0, Math.ceil(byAge.length / 10))) agents.delete(subject);
}

/** Throws FleetError. */
function read({ body, headers }: Message): Heartbeat {
  const bytes = body.byteLength;
  if (bytes > LIMITS.heartbeat_bytes_max) {
    throw invalid("", `at most ${LIMITS.heartbeat_bytes_max} bytes`, `${bytes} bytes`);
  }
  requireProtocol(headers.get(HEADERS.protocol));
  return validate(heartbeatSchema, decodeBody(body, headers.get(HEADERS.contentType)));
}

const NOTHING = Buffer.alloc(0);

class Agent implements LatestHeartbeat {
  readonly tenant: string;
  readonly firstAt: number;
  lastAt: number;
  beat!: Heartbeat;
  stepEndsAt: number | null = null;
  #bytes = NOTHING;
  /** The offsets of `sent_at` in the bytes. */
  #from = 0;
  #to = 0;

  constructor(tenant: string, nowMs: number) {
    this.tenant = tenant;
    this.firstAt = nowMs;
    this.lastAt = nowMs;
  }

  update(beat: Heartbeat, body: Uint8Array, nowMs: number): void {
    this.beat = beat;
    const { step_deadline: deadline, sent_at: sentAt } = beat;
    this.stepEndsAt = deadline === undefined ? null : nowMs + Date.parse(deadline) - Date.parse(sentAt);
    // Copied, because a view would keep the connection's receive block in memory.
    this.#bytes = Buffer.from(new Uint8Array(body).buffer);
    this.#from = Math.max(0, this.#bytes.indexOf(sentAt));
    this.#to = this.#from + sentAt.length;
  }

  /** Whether the body equals the last one byte for byte, except for `sent_at`. */
  repeats(body: Uint8Array): boolean {
    const own = this.#bytes;
    const [from, to, end] = [this.#from, this.#to, own.length];
    if (body.length !== end || end === 0) return false;
    return own.compare(body, 0, from, 0, from) === 0 && own.compare(body, to, end, to, end) === 0;
  }
}
