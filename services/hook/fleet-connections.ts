/** The connections to the fleet, one for each agent: what an agent may do follows from its own credentials. */
import type { AgentSession } from "../../shared/protocol/turns.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import type { Environment } from "../../shared/runtime/settings/config.ts";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { type HookEvent, shortHash } from "./event.ts";

const CONNECT_MS = 2_000;
const IDLE_MS = 10 * 60_000;
/** Unused connections beyond this number are closed at once. */
const CONNECTIONS_MAX = 100;

/** The agent of a session, and its place in the fleet. */
export interface HookAgent {
  readonly agentId: string;
  readonly agentType: string;
  /** The task that the runner gave it. undefined: the session has a task of its own. */
  readonly taskId: string | undefined;
  /** The fence under which a runner started it. */
  readonly fence: number | undefined;
}

/** A session without an agent has one of its own, so that two sessions of a user never share a name. */
const ownAgentId = (vendor: string, sessionId: string): string => `${vendor}-${shortHash(sessionId)}`;

/** Any agent may name any folder for a session: only a session of this agent, or one of a user, is continued. */
export const isTrusted = ({ agent_id, vendor, session_id }: AgentSession, { agentId }: HookAgent): boolean =>
  agent_id === agentId || agent_id === ownAgentId(vendor, session_id);

export function agentOf({ env, vendor, sessionId }: HookEvent): HookAgent {
  const fence = Number(env.FLEET_FENCE);
  const isStarted = env.FLEET_TASK !== undefined && Number.isSafeInteger(fence) && fence > 0;
  return {
    agentId: env.FLEET_AGENT_ID ?? ownAgentId(vendor, sessionId),
    agentType: env.FLEET_AGENT_TYPE ?? "implementation",
    taskId: env.FLEET_TASK,
    fence: isStarted ? fence : undefined,
  };
}

interface Connection {
  readonly client: Promise<FleetClient>;
  users: number;
  /** By the monotonic clock. */
  usedAt: number;
}

type Context = Pick<ServiceContext, "log" | "clock">;

export class FleetConnections {
  readonly #context: Context;
  /** The one that was used last is the last. */
  readonly #connections = new Map<string, Connection>();

  constructor(context: Context) {
    this.#context = context;
  }

  /**
   * Runs with the connection of the agent, which is made also while no bus is available. Throws ConfigError for settings that are wrong.
   */
  async use<T>(agent: HookAgent, env: Environment, run: (client: FleetClient) => Promise<T>): Promise<T> {
    const key = keyOf(agent, env);
    const known = this.#connections.get(key);
    const connection = known ?? { client: this.#connect(agent, env), users: 0, usedAt: 0 };
    this.#connections.delete(key);
    this.#connections.set(key, connection);
    connection.users += 1;
    // Later events try again, perhaps with keys that exist by then.
    connection.client.catch(() => this.#connections.delete(key));
    try {
      return await run(await connection.client);
    } finally {
      connection.users -= 1;
      connection.usedAt = this.#context.clock.monotonic();
    }
  }

  /** Closes the connection of an agent whose session has ended, unless another session of the agent uses it. */
  closeOf(agent: HookAgent, env: Environment): void {
    const key = keyOf(agent, env);
    if (this.#connections.get(key)?.users === 0) void this.#close(key);
  }

  /** Closes unused connections: not every session reports its end. */
  closeIdle(): void {
    const now = this.#context.clock.monotonic();
    let open = this.#connections.size;
    for (const [key, { users, usedAt }] of this.#connections) {
      if (users > 0 || (open <= CONNECTIONS_MAX && now - usedAt < IDLE_MS)) continue;
      open -= 1;
      void this.#close(key);
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#connections.keys()].map((key) => this.#close(key)));
  }

  /** Never rejects. */
  async #close(key: string): Promise<void> {
    const connection = this.#connections.get(key);
    this.#connections.delete(key);
    try {
      await (await connection?.client)?.close();
    } catch (error) {
      this.#context.log.debug({ error }, "a connection was not closed in order");
    }
  }

  #connect({ agentId }: HookAgent, env: Environment): Promise<FleetClient> {
    return connect({
      agentId,
      isCapture: true,
      connectTimeoutMs: CONNECT_MS,
      log: this.#context.log,
      onWarning: ({ code, text, details }) =>
        this.#context.log.warn({ code, text, details }, "warning of the client"),
      // Without the variables of the account, so that the folders of spools are found.
      env: { ...process.env, ...env },
    });
  }
}

const keyOf = ({ agentId }: HookAgent, env: Environment): string =>
  JSON.stringify([agentId, Object.entries(env).sort()]);
