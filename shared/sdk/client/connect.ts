/** `connect()`: from a few settings to a client. Settings not given come from the environment (`FLEET_…`). */
import { hostname } from "node:os";
import { join } from "node:path";
import { BusError } from "../../bus/bus.ts";
import { connectBus } from "../../bus/connection.ts";
import { invalid } from "../../protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { createLogger, type Logger } from "../../runtime/observability/log.ts";
import { type Environment, optional, readConfig, text } from "../../runtime/settings/config.ts";
import { addressFields, discoverBus } from "../address.ts";
import { type Fallback, publish } from "../delivery/command-delivery.ts";
import { TaskOrder } from "../delivery/command-order.ts";
import { BusLink } from "../request/connection.ts";
import { Spool } from "../spool/spool.ts";
import { spoolName } from "../spool/spool-list.ts";
import type { FleetWarning } from "./calls.ts";
import { FleetClient } from "./client.ts";

export const clientFields = {
  tenant: text("FLEET_TENANT", { default: DEFAULT_TENANT, description: "Tenant of the tasks" }),
  agentId: optional(
    text("FLEET_AGENT_ID", {
      description: "Id of the caller, in the subjects and in the audit trail",
      defaultNote: "host and process id; `cli-<user>` for commands",
    }),
  ),
  spoolDir: optional(
    text("FLEET_SPOOL_DIR", {
      description: "Folder of the spool, which keeps commands while the bus is unavailable",
      defaultNote: "`<FLEET_HOME>/spool`",
    }),
  ),
} as const;

export interface ConnectOptions {
  readonly url?: string;
  readonly tenant?: string;
  /** Default: `FLEET_AGENT_ID`, else made from host and process. */
  readonly agentId?: string;
  /**
   * What becomes of a command that no writer answers. `spool`, the default: it goes into the queue, and without a bus onto this
   * machine's disk (`queued`, `spooled`). `queue`: into the queue or nowhere. `none`: it is asked again until the deadline.
   */
  readonly fallback?: Fallback;
  /** Folder of the spool. Default: `FLEET_SPOOL_DIR`, else `spool` in `FLEET_HOME`. */
  readonly spoolDir?: string;
  /** Bytes that may wait in the spool of one agent. Default 64 MiB. */
  readonly spoolBytesMax?: number;
  /** Milliseconds to reach the bus at first; later it reconnects for ever. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Default: silent. */
  readonly log?: Logger;
  /** Default: a process warning. */
  readonly onWarning?: (warning: FleetWarning) => void;
  readonly env?: Environment;
}

const CONNECT_MS_DEFAULT = 5_000;
/** For the queue to take one command out of the spool. */
const SEND_MS = 2_000;

function emitWarning({ code, text, details }: FleetWarning): void {
  process.emitWarning(text, { type: "FleetWarning", code, detail: JSON.stringify(details) });
}

function hostName(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .slice(0, 40);
  return `agent-${host}`;
}

/**
 * Resolves also while there is no bus, if there is a spool: commands are then spooled, and queries throw UNAVAILABLE. With another
 * `fallback` it throws UNAVAILABLE when no bus answers in time.
 */
export async function connect(options: ConnectOptions = {}): Promise<FleetClient> {
  const env = options.env ?? process.env;
  const config = readConfig(clientFields, env);
  const tenant = options.tenant ?? config.tenant;
  const named = options.agentId ?? config.agentId;
  const agentId = named ?? `${hostName()}-${process.pid}`;
  if (!isToken(tenant)) throw invalid("tenant", "1 to 64 characters of A-Z a-z 0-9 _ -", tenant);
  if (!isToken(agentId)) throw invalid("agentId", "1 to 64 characters of A-Z a-z 0-9 _ -", agentId);
  const { fallback = "spool" } = options;
  const log = options.log ?? createLogger({ service: "sdk", level: "silent" });
  const onWarning = options.onWarning ?? emitWarning;
  const clock = systemClock;
  const address = options.url ?? discoverBus(env).url;
  const open = () =>
    connectBus({
      url: address,
      name: `fleet-sdk/${agentId}`,
      identity: agentId,
      log,
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_MS_DEFAULT,
    });
  const link = new BusLink(open, { clock, log });
  // Agents without a name of their own share a spool, because nobody will ever have their name again.
  const path = join(spoolFolder(options, env), spoolName(tenant, named ?? hostName()));
  const order = new TaskOrder(clock, fallback === "spool" ? path : undefined);
  const spool =
    fallback === "spool"
      ? spoolAt(path, options.spoolBytesMax, { link, order, clock, log, onWarning })
      : undefined;
  await link.start(spool !== undefined);
  await order.load();
  await spool?.start();
  return new FleetClient({ link, spool, order, fallback, clock, log, tenant, agentId, onWarning });
}

/** Throws ConfigError. */
export function spoolFolder({ spoolDir }: Pick<ConnectOptions, "spoolDir">, env: Environment): string {
  return (
    spoolDir ?? readConfig(clientFields, env).spoolDir ?? join(readConfig(addressFields, env).home, "spool")
  );
}

interface SpoolParts {
  readonly link: BusLink;
  readonly order: TaskOrder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onWarning: (warning: FleetWarning) => void;
}

function spoolAt(
  path: string,
  bytesMax: number | undefined,
  { link, order, clock, log, onWarning }: SpoolParts,
): Spool {
  const spool = new Spool({
    path,
    bytesMax: bytesMax ?? LIMITS.spool_bytes_max,
    clock,
    log,
    isUp: () => link.isUp,
    send: (command) => sent(publish(link.bus, command, command.body, SEND_MS)),
    onGone: ({ taskId, commandId }) => order.queued(taskId, commandId),
    onAside: ({ reason }, command) =>
      onWarning({
        code: "SPOOL_SET_ASIDE",
        text:
          reason === "damaged"
            ? "a line of the spool is damaged, as a kill in the middle of writing leaves it, and was set aside"
            : "a spooled command cannot be sent and was set aside for a person",
        details: { reason, spool: path, task_id: command?.taskId, command_id: command?.commandId },
      }),
  });
  link.onUp(() => spool.wake());
  return spool;
}

/** What no repetition can mend is said; what may pass is thrown. */
async function sent(published: Promise<number>): Promise<"too_large" | "forbidden" | undefined> {
  try {
    await published;
    return undefined;
  } catch (error) {
    const kind = error instanceof BusError ? error.kind : undefined;
    if (kind === "too_large") return "too_large";
    if (kind === "permission") return "forbidden";
    throw error;
  }
}
