/**
 * Sends an agent's heartbeat: every two seconds by default, and at once when its state changes or its connection comes up, so that the time
 * without a connection is the only silence. A lost heartbeat is not repeated; the next one replaces it.
 */
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
import type { ClientConnection } from "./request/connection.ts";

/** The present activity of an agent. `pid`: default this process; null: unknown. */
export type HeartbeatState = Pick<
  Camel<Heartbeat>,
  "state" | "taskId" | "fence" | "sessionId" | "stepDeadline" | "agentType"
> & { readonly pid?: number | null | undefined };

export interface HeartbeatParts {
  readonly connection: ClientConnection;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tenant: string;
  readonly agentId: string;
  /** Default: {@link LIMITS.heartbeat_ms}. */
  readonly everyMs?: number | undefined;
}

/** Spreads the heartbeats of agents that were started together. */
const JITTER = 0.1;

export class HeartbeatSender {
  readonly #parts: HeartbeatParts;
  readonly #stop: Stop;
  readonly #endListening: () => void;
  #state: HeartbeatState;

  constructor(parts: HeartbeatParts, state: HeartbeatState) {
    this.#parts = parts;
    this.#state = state;
    this.#stop = startTicker({
      name: "heartbeat",
      everyMs: parts.everyMs ?? LIMITS.heartbeat_ms,
      jitter: JITTER,
      run: async () => this.#send(),
      clock: parts.clock,
      log: parts.log,
    });
    this.#endListening = parts.connection.onUp(() => this.#send());
  }

  /** Changes the given members and sends the state at once; `undefined` removes a member. */
  set(state: Partial<HeartbeatState>): void {
    this.#state = { ...this.#state, ...state };
    this.#send();
  }

  /** Sends a last heartbeat, so that the silence is not taken for a crash. */
  async stop(): Promise<void> {
    this.#endListening();
    await this.#stop();
    this.set({ state: "stopping" });
  }

  #send(): void {
    const { connection, clock, log, tenant, agentId } = this.#parts;
    // A heartbeat that waits for the bus would be out of date when it arrives.
    if (!connection.isUp) return;
    const { pid = process.pid, ...state } = this.#state;
    const heartbeat: Record<string, unknown> = {
      agent_id: agentId,
      ...toSnake(state),
      host: hostname(),
      ...(pid !== null && { pid }),
      sent_at: new Date(clock.now()).toISOString(),
    };
    try {
      const body = encodeBody(heartbeat, CONTENT_TYPES.json);
      connection.bus.publish(SUBJECTS.heartbeat(tenant, agentId), { body });
    } catch (error) {
      log.debug({ error }, "heartbeat could not be sent");
    }
  }
}
