/** Says every so often, every two seconds by default, that this agent lives and what it is at, and at once when that changes. What is lost is followed by the next. */
import { hostname } from "node:os";
import { encodeBody } from "../integrity/wire.ts";
import type { Heartbeat } from "../protocol/heartbeat.ts";
import { LIMITS } from "../protocol/limits.ts";
import { CONTENT_TYPES, SUBJECTS } from "../protocol/subjects.ts";
import type { Clock } from "../runtime/clock.ts";
import type { Logger } from "../runtime/observability/log.ts";
import type { Stop } from "../runtime/process/service.ts";
import { startTicker } from "../runtime/ticker.ts";
import { type Camel, toSnake } from "./case-convert.ts";
import type { Link } from "./request/connection.ts";

/** What an agent is at. `pid`: default this process; null: nobody knows it. */
export type Pulse = Pick<
  Camel<Heartbeat>,
  "state" | "taskId" | "fence" | "sessionId" | "stepDeadline" | "agentType"
> & { readonly pid?: number | null | undefined };

export interface HeartbeatParts {
  readonly link: Link;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tenant: string;
  readonly agentId: string;
  /** Default: {@link LIMITS.heartbeat_ms}. */
  readonly everyMs?: number | undefined;
}

/** So that agents started together do not beat together. */
const JITTER = 0.1;

export class Heart {
  readonly #parts: HeartbeatParts;
  readonly #stop: Stop;
  #pulse: Pulse;

  constructor(parts: HeartbeatParts, pulse: Pulse) {
    this.#parts = parts;
    this.#pulse = pulse;
    this.#stop = startTicker({
      name: "heartbeat",
      everyMs: parts.everyMs ?? LIMITS.heartbeat_ms,
      jitter: JITTER,
      run: async () => this.#beat(),
      clock: parts.clock,
      log: parts.log,
    });
  }

  /** Changes what is named, and says so at once; `undefined` takes it away. */
  set(pulse: Partial<Pulse>): void {
    this.#pulse = { ...this.#pulse, ...pulse };
    this.#beat();
  }

  /** With a last word, so that nobody takes the silence for a crash. */
  async stop(): Promise<void> {
    await this.#stop();
    this.set({ state: "stopping" });
  }

  #beat(): void {
    const { link, clock, log, tenant, agentId } = this.#parts;
    // What was kept for a bus that is away would be old news when it is back.
    if (!link.isUp) return;
    const { pid = process.pid, ...pulse } = this.#pulse;
    const beat: Record<string, unknown> = {
      agent_id: agentId,
      ...toSnake(pulse),
      host: hostname(),
      ...(pid !== null && { pid }),
      sent_at: new Date(clock.now()).toISOString(),
    };
    try {
      const body = encodeBody(beat, CONTENT_TYPES.json);
      link.bus.publish(SUBJECTS.heartbeat(tenant, agentId), { body });
    } catch (error) {
      log.debug({ error }, "heartbeat could not be sent");
    }
  }
}
