/** `connect()`: from a few settings to a client. Settings not given come from the environment (`FLEET_…`). */
import { hostname } from "node:os";
import { BusError } from "../bus/bus.ts";
import { connectBus } from "../bus/connection.ts";
import { invalid } from "../protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../protocol/ids.ts";
import { systemClock } from "../runtime/clock.ts";
import { type Environment, optional, readConfig, text, url } from "../runtime/config.ts";
import { createLogger, type Logger } from "../runtime/log.ts";
import { refusal } from "./asking.ts";
import { FleetClient, type FleetWarning } from "./client.ts";

export const clientFields = {
  url: url("FLEET_URL", {
    default: "nats://127.0.0.1:4222",
    description: "Where the bus is: nats://host:port",
  }),
  tenant: text("FLEET_TENANT", { default: DEFAULT_TENANT, description: "The tenant whose tasks are meant" }),
  agentId: optional(
    text("FLEET_AGENT_ID", {
      description: "Who is asking; becomes part of the subject and of the audit trail",
    }),
  ),
} as const;

export interface ConnectOptions {
  readonly url?: string;
  readonly tenant?: string;
  /** Default: `FLEET_AGENT_ID`, else made from host and process. */
  readonly agentId?: string;
  /** Milliseconds to reach the bus at first; later it reconnects for ever. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Default: silent. */
  readonly log?: Logger;
  /** Default: a process warning. */
  readonly onWarning?: (warning: FleetWarning) => void;
  readonly env?: Environment;
}

const CONNECT_MS_DEFAULT = 5_000;

function emitWarning({ code, text, details }: FleetWarning): void {
  process.emitWarning(text, { type: "FleetWarning", code, detail: JSON.stringify(details) });
}

function ownName(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .slice(0, 40);
  return `agent-${host}-${process.pid}`;
}

/** Throws UNAVAILABLE when no bus answers in time. */
export async function connect(options: ConnectOptions = {}): Promise<FleetClient> {
  const config = readConfig(clientFields, options.env ?? process.env);
  const tenant = options.tenant ?? config.tenant;
  const agentId = options.agentId ?? config.agentId ?? ownName();
  if (!isToken(tenant)) throw invalid("tenant", "1 to 64 characters of A-Z a-z 0-9 _ -", tenant);
  if (!isToken(agentId)) throw invalid("agentId", "1 to 64 characters of A-Z a-z 0-9 _ -", agentId);
  const bus = await connectBus({
    url: options.url ?? config.url,
    name: `fleet-sdk/${agentId}`,
    identity: agentId,
    log: options.log ?? createLogger({ service: "sdk", level: "silent" }),
    connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_MS_DEFAULT,
  }).catch((error: unknown) => {
    throw error instanceof BusError ? refusal(error) : error;
  });
  return new FleetClient({
    bus,
    clock: systemClock,
    tenant,
    agentId,
    onWarning: options.onWarning ?? emitWarning,
  });
}
