/**
 * What agents said last, in memory: heartbeats are news and no record, so each process listens for itself and forgets what is old. The
 * number of agents is bounded; who was heard of longest ago gives way. Of thousands of agents almost every beat says the same as the one
 * before but for its time, so one is decoded only when something else in it has changed.
 */
import type { Bus, Message } from "../bus/bus.ts";
import { decodeBody } from "../integrity/wire.ts";
import { invalid } from "../protocol/errors.ts";
import { type Heartbeat, heartbeatSchema } from "../protocol/heartbeat.ts";
import { LIMITS } from "../protocol/limits.ts";
import { HEADERS, parseHeartbeatSubject, SUBJECTS } from "../protocol/subjects.ts";
import { validate } from "../protocol/validation.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/observability/log.ts";
import type { Stop } from "../runtime/process/service.ts";

/** Times by the wall clock of this process. */
export interface Heard {
  readonly tenant: string;
  /** The newest one but perhaps for `sent_at`. */
  readonly beat: Heartbeat;
  readonly firstAt: number;
  readonly lastAt: number;
  /** When its step is overdue; null: it declared none. From the agent's own times, so that its clock may be wrong. */
  readonly stepEndsAt: number | null;
}

export interface Heartbeats {
  readonly since: number;
  /** Of one tenant, by agent id, those that were heard of not too long ago. */
  of(tenant: string): ReadonlyMap<string, Heard>;
  readonly stop: Stop;
}

export interface Listening {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called for each beat: thousands of times a second. */
  readonly onBeat?: (heard: Heard) => void;
}

export async function listenToHeartbeats({ bus, clock, log, onBeat }: Listening): Promise<Heartbeats> {
  /** By subject. */
  const heard = new Map<string, Agent>();
  const said = (message: Message, known: Agent | undefined): Agent | null => {
    const { tenant, agent } = parseHeartbeatSubject(message.subject);
    const beat = read(message);
    // The bus vouches for the subject, nobody for the body.
    if (beat.agent_id !== agent) return null;
    const one = known ?? new Agent(tenant, clock.now());
    one.say(beat, message.body, clock.now());
    return one;
  };
  const hear = (message: Message): void => {
    const { subject } = message;
    const known = heard.get(subject);
    const one = known?.saysTheSame(message.body) ? known : said(message, known);
    if (one === null) return;
    one.lastAt = clock.now();
    if (known === undefined) {
      heard.set(subject, one);
      if (heard.size > LIMITS.agents_remembered_count_max) forgetSome(heard);
    }
    onBeat?.(one);
  };
  const stop = await bus.subscribe(SUBJECTS.everyHeartbeat, (message) => {
    try {
      hear(message);
    } catch (error) {
      log.debug({ subject: message.subject, error }, "a heartbeat cannot be read");
    }
  });
  return {
    since: clock.now(),
    of(tenant) {
      const oldest = clock.now() - LIMITS.agent_remembered_ms;
      for (const [subject, { lastAt }] of heard) if (lastAt < oldest) heard.delete(subject);
      return new Map(
        [...heard.values()]
          .filter((one) => one.tenant === tenant)
          .map((one): [string, Heard] => [one.beat.agent_id, one])
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    },
    stop,
  };
}

/** Those who were heard of longest ago: a tenth, so that a flood of new names does not look through all for each. */
function forgetSome(heard: Map<string, Agent>): void {
  const byAge = [...heard].sort(([, a], [, b]) => a.lastAt - b.lastAt);
  for (const [subject] of byAge.slice(0, Math.ceil(byAge.length / 10))) heard.delete(subject);
}

/** Throws FleetError. */
function read({ body, headers }: Message): Heartbeat {
  const bytes = body.byteLength;
  if (bytes > LIMITS.heartbeat_bytes_max) {
    throw invalid("", `at most ${LIMITS.heartbeat_bytes_max} bytes`, `${bytes} bytes`);
  }
  return validate(heartbeatSchema, decodeBody(body, headers.get(HEADERS.contentType)));
}

const NOTHING = Buffer.alloc(0);

class Agent implements Heard {
  readonly tenant: string;
  readonly firstAt: number;
  lastAt: number;
  beat!: Heartbeat;
  stepEndsAt: number | null = null;
  #bytes = NOTHING;
  /** Where `sent_at` lies in the bytes. */
  #from = 0;
  #to = 0;

  constructor(tenant: string, nowMs: number) {
    this.tenant = tenant;
    this.firstAt = nowMs;
    this.lastAt = nowMs;
  }

  say(beat: Heartbeat, body: Uint8Array, nowMs: number): void {
    this.beat = beat;
    const { step_deadline: deadline, sent_at: sentAt } = beat;
    this.stepEndsAt = deadline === undefined ? null : nowMs + Date.parse(deadline) - Date.parse(sentAt);
    // Copied, because it lies in a block of what the connection received, which it would keep alive.
    this.#bytes = Buffer.from(new Uint8Array(body).buffer);
    this.#from = Math.max(0, this.#bytes.indexOf(sentAt));
    this.#to = this.#from + sentAt.length;
  }

  /** Byte for byte, but for the time at which it was sent. */
  saysTheSame(body: Uint8Array): boolean {
    const own = this.#bytes;
    const [from, to, end] = [this.#from, this.#to, own.length];
    if (body.length !== end || end === 0) return false;
    return own.compare(body, 0, from, 0, from) === 0 && own.compare(body, to, end, to, end) === 0;
  }
}
