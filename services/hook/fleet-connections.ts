/** The connections to the fleet, one for each agent: what an agent may do follows from its own credentials. */
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Environment } from "../../shared/runtime/settings/config.ts";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { type HookEvent, shortHash } from "./event.ts";

const CONNECT_MS = 2_000;

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
export function agentOf({ env, vendor, sessionId }: HookEvent): HookAgent {
  const fence = Number(env.FLEET_FENCE);
  const isStarted = env.FLEET_TASK !== undefined && Number.isSafeInteger(fence) && fence > 0;
  return {
    agentId: env.FLEET_AGENT_ID ?? `${vendor}-${shortHash(sessionId)}`,
    agentType: env.FLEET_AGENT_TYPE ?? "implementation",
    taskId: env.FLEET_TASK,
    fence: isStarted ? fence : undefined,
  };
}

export class FleetConnections {
  readonly #log: Logger;
  readonly #clients = new Map<string, Promise<FleetClient>>();

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Resolves also while no bus is available. Throws ConfigError for settings that are wrong. */
  client(agent: HookAgent, env: Environment): Promise<FleetClient> {
    const key = JSON.stringify([agent.agentId, Object.entries(env).sort()]);
    let client = this.#clients.get(key);
    if (client === undefined) {
      client = this.#connect(agent, env);
      this.#clients.set(key, client);
      client.catch(() => this.#clients.delete(key));
    }
    return client;
  }

  /** Closes the connections of an agent whose session has ended. */
  async closeOf(agent: HookAgent, env: Environment): Promise<void> {
    const key = JSON.stringify([agent.agentId, Object.entries(env).sort()]);
    const client = this.#clients.get(key);
    this.#clients.delete(key);
    await (await client)?.close();
  }

  async close(): Promise<void> {
    const clients = await Promise.allSettled(this.#clients.values());
    await Promise.allSettled(
      clients.map((client) => (client.status === "fulfilled" ? client.value.close() : undefined)),
    );
  }

  #connect({ agentId }: HookAgent, env: Environment): Promise<FleetClient> {
    return connect({
      agentId,
      connectTimeoutMs: CONNECT_MS,
      log: this.#log,
      onWarning: ({ code, text, details }) =>
        this.#log.warn({ code, text, details }, "warning of the client"),
      // Without the variables of the account, so that the folders of spools are found.
      env: { ...process.env, ...env },
    });
  }
}
