/**
 * What agents said last, in memory: heartbeats are news and no record, so each reader listens for itself and forgets what is old. The
 * number of agents is bounded; who was heard of longest ago gives way.
 */
import type { Bus, Message } from "../../shared/bus/bus.ts";
import { decodeBody } from "../../shared/integrity/wire.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { type Heartbeat, heartbeatSchema } from "../../shared/protocol/heartbeat.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { HEADERS, parseHeartbeatSubject, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/log.ts";
import type { Stop } from "../../shared/runtime/service.ts";

export interface Heard {
  readonly beat: Heartbeat;
  readonly firstAt: number;
  readonly lastAt: number;
}

export interface Heartbeats {
  readonly since: number;
  /** Of one tenant, by agent id, those that were heard of not too long ago. */
  of(tenant: string): ReadonlyMap<string, Heard>;
  readonly stop: Stop;
}

export async function listenToHeartbeats({
  bus,
  clock,
  log,
}: {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly log: Logger;
}): Promise<Heartbeats> {
  /** By `<tenant>.<agent>`, in the order in which they were last heard of. */
  const heard = new Map<string, Heard>();
  const hear = (message: Message): void => {
    const { tenant, agent } = parseHeartbeatSubject(message.subject);
    const bytes = message.body.byteLength;
    if (bytes > LIMITS.heartbeat_bytes_max) {
      throw invalid("", `at most ${LIMITS.heartbeat_bytes_max} bytes`, `${bytes} bytes`);
    }
    const beat = validate(
      heartbeatSchema,
      decodeBody(message.body, message.headers.get(HEADERS.contentType)),
    );
    // The bus vouches for the subject, nobody for the body.
    if (beat.agent_id !== agent) return;
    const key = `${tenant}.${agent}`;
    const nowMs = clock.now();
    const firstAt = heard.get(key)?.firstAt ?? nowMs;
    heard.delete(key);
    heard.set(key, { beat, firstAt, lastAt: nowMs });
    if (heard.size > LIMITS.agents_remembered_count_max) heard.delete(heard.keys().next().value as string);
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
      for (const [key, { lastAt }] of heard) {
        if (lastAt >= oldest) break;
        heard.delete(key);
      }
      const prefix = `${tenant}.`;
      return new Map(
        [...heard]
          .filter(([key]) => key.startsWith(prefix))
          .map(([key, one]): [string, Heard] => [key.slice(prefix.length), one])
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      );
    },
    stop,
  };
}
