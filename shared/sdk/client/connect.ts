/** `connect()`: makes a client from a few settings. Settings that are not given come from the environment (`FLEET_…`). */

import { hostname } from "node:os";
import { readCredentialsHolder } from "../../bus/access/holder.ts";
import { issueLocally } from "../../bus/access/local-credentials.ts";
import { type Bus, BusError } from "../../bus/bus.ts";
import { type BusCredentials, connectBus } from "../../bus/connection.ts";
import { type ExpectedFleet, otherFleet } from "../../bus/server-name.ts";
import { tlsFields } from "../../bus/tls-settings.ts";
import { invalid } from "../../protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { isPrincipal, PRINCIPAL_FORM } from "../../protocol/principal.ts";
import type { ClientRole } from "../../protocol/roles.ts";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { createLogger, type Logger } from "../../runtime/observability/log.ts";
import { type Environment, optional, readConfig, text } from "../../runtime/settings/config.ts";
import { type BusAddress, discoverBus, isBusOfHome, isPrivateBus, tlsFor } from "../address.ts";
import type { Fallback } from "../delivery/command-delivery.ts";
import { CommandOrder } from "../delivery/command-order.ts";
import { publishCommand } from "../delivery/queue.ts";
import { homeOf } from "../fleet-home.ts";
import { Redaction } from "../redaction/redaction.ts";
import { type RedactionMode, type RedactionSettings, redactionFields } from "../redaction/secret-settings.ts";
import { connectionOver, PersistentConnection } from "../request/connection.ts";
import type { SpooledCommand } from "../spool/line.ts";
import { type SpoolNote, type SpoolOwner, spoolPlace, waitingFor, writeNote } from "../spool/places.ts";
import { SpoolSeal, spoolKeyField } from "../spool/seal.ts";
import { Spool } from "../spool/spool.ts";
import { spoolName } from "../spool/spool-list.ts";
import { FleetClient } from "./client.ts";
import {
  emitProcessWarning,
  type OnWarning,
  warnOfAside,
  warnOfDefault,
  warnOfOtherFleet,
} from "./warnings.ts";

export const clientFields = {
  tenant: text("FLEET_TENANT", { default: DEFAULT_TENANT, description: "Tenant of the tasks" }),
  agentId: optional(
    text("FLEET_AGENT_ID", {
      description: "Id of the caller, in the subjects and in the audit trail",
      defaultNote: "host and process id; commands act as a person",
    }),
  ),
  spoolDir: optional(
    text("FLEET_SPOOL_DIR", {
      description: "Folder of the spools, which keep commands while the bus is unavailable",
      defaultNote: "a folder for each fleet in `~/.local/state/fleet/spool` (`XDG_STATE_HOME`)",
    }),
  ),
  spoolKeys: spoolKeyField,
  ...tlsFields,
  busCredentials: optional(
    text("FLEET_NATS_CREDS", {
      description: "Credentials file for the bus; read again at every reconnect",
      defaultNote: "the keys in the home of the fleet on this machine",
    }),
  ),
  busTokenFile: optional(
    text("FLEET_NATS_TOKEN_FILE", {
      description:
        "File with a token that the signing service of the fleet accepts, in place of credentials; read again at every reconnect",
    }),
  ),
  ...redactionFields,
} as const;

export interface ConnectOptions {
  readonly url?: string;
  readonly tenant?: string;
  /**
   * Credentials file for the bus, read again at every reconnect. Default: `FLEET_NATS_CREDS`. Its holder is the default of `agentId` and
   * `tenant`.
   */
  readonly credentials?: string;
  /**
   * The role for which a program of the fleet's own user makes its credentials itself, if it has no file. Default `agent`, which may
   * do what agents do; `operator` may do everything in its tenant.
   */
  readonly role?: ClientRole;
  /** The agent, or `human=<name>` for a person. Default: `FLEET_AGENT_ID`, else made from host and process. */
  readonly agentId?: string;
  /** The caller that nothing else names: neither `agentId`, nor `FLEET_AGENT_ID`, nor a credentials file. */
  readonly defaultAgentId?: string;
  /**
   * Where a command goes that no writer answers. `spool`, the default: into the queue, and without a bus onto this machine's disk
   * (`queued`, `spooled`). `queue`: into the queue only. `none`: the command is repeated until the deadline.
   */
  readonly fallback?: Fallback;
  /** Folder of the spools. Default: `FLEET_SPOOL_DIR`, else a folder for each fleet in this user's state. */
  readonly spoolDir?: string;
  /** Bytes that may wait in the spool of one agent. Default 64 MiB. */
  readonly spoolBytesMax?: number;
  /** Milliseconds for the first connect; later the bus is reconnected without a limit. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /**
   * Secrets are removed from commands before they leave the process. `automatic`, the default: from what runs of agents write; `on`: from
   * every command. Default: `FLEET_REDACTION`.
   */
  readonly redaction?: RedactionMode;
  /** The program captures what others write, as hooks do: `automatic` removes secrets from all of it. */
  readonly isCapture?: boolean;
  /** Default: silent. */
  readonly log?: Logger;
  /** Default: a process warning. */
  readonly onWarning?: OnWarning;
  readonly env?: Environment;
}

const GIVEN = "from the options";
const CONNECT_MS_DEFAULT = 5_000;
/** The wait for the queue to acknowledge one spooled command. */
const SEND_MS = 2_000;

function hostAgentId(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .slice(0, 40);
  return `agent-${host}`;
}

/**
 * Resolves also while no bus is available, if there is a spool: commands are then spooled, and queries throw UNAVAILABLE. With another
 * `fallback` it throws UNAVAILABLE if no bus answers in time.
 */
export async function connect(options: ConnectOptions = {}): Promise<FleetClient> {
  const env = options.env ?? process.env;
  const config = readConfig(clientFields, env);
  const credentialsFile = options.credentials ?? config.busCredentials;
  const holder = credentialsFile === undefined ? undefined : readCredentialsHolder(credentialsFile);
  const tenant =
    options.tenant ?? (env.FLEET_TENANT === undefined ? holder?.tenant : undefined) ?? config.tenant;
  const givenId = options.agentId ?? config.agentId ?? holder?.name ?? options.defaultAgentId;
  const agentId = givenId ?? `${hostAgentId()}-${process.pid}`;
  if (!isToken(tenant)) throw invalid("tenant", "1 to 64 characters of A-Z a-z 0-9 _ -", tenant);
  if (!isPrincipal(agentId)) throw invalid("agentId", PRINCIPAL_FORM, agentId);
  const { fallback = "spool", connectTimeoutMs = CONNECT_MS_DEFAULT, spoolBytesMax } = options;
  const log = options.log ?? createLogger({ service: "sdk", level: "silent" });
  const onWarning = options.onWarning ?? emitProcessWarning;
  const redaction = redactionOf(options, config, env, log);
  const seal = SpoolSeal.of(config.spoolKeys, env);
  const address: BusAddress =
    options.url === undefined ? discoverBus(env) : { url: options.url, origin: GIVEN };
  const { url } = address;
  if (address.isAssumed) warnOfDefault(onWarning, url);
  // Agents without an id of their own share a spool, because no later process has the same id.
  const name = spoolName(tenant, givenId ?? hostAgentId());
  const owner: SpoolOwner = { dir: options.spoolDir ?? config.spoolDir, address, name, env };
  // The fleet of the spooled commands, those of earlier processes and those of this one.
  let waiting = fallback === "spool" ? await waitingFor(owner) : undefined;
  const findCredentials = (busUrl: string) =>
    credentialsOf({ ...options, tenant, agentId, url: busUrl }, env);
  // Wrong settings are reported although no bus is available.
  findCredentials(url);
  const open = async () => {
    const now = addressNow(address, env);
    const { url } = now;
    const credentials = await findCredentials(url)();
    return connectBus({
      url,
      name: `fleet-sdk/${agentId}`,
      tenant,
      identity: agentId,
      log,
      connectTimeoutMs,
      expected: meantFleet(waiting, now),
      ...tlsFor(url, env),
      ...(credentials !== undefined && { credentials }),
    });
  };
  const spool: ConnectionSettings["spool"] =
    fallback === "spool"
      ? async (met) => {
          const place = await spoolPlace(owner, met);
          if (place?.note.fleet != null) waiting ??= { fleet: place.note.fleet, home: place.path };
          return place && { ...place, bytesMax: spoolBytesMax, seal };
        }
      : undefined;
  return connectClient(open, {
    expected: meantFleet(waiting, address),
    tenant,
    agentId,
    fallback,
    spool,
    clock: systemClock,
    log,
    onWarning,
    redaction,
  });
}

/** Throws ConfigError. */
function redactionOf(
  { redaction: given, isCapture = false }: ConnectOptions,
  settings: RedactionSettings,
  env: Environment,
  log: Logger,
): Redaction {
  const chosen = given ?? settings.redaction;
  const mode = isCapture && chosen === "automatic" ? "on" : chosen;
  return new Redaction({ mode, settings, env, log });
}

/** The fleet that must answer: that of the spooled commands; if they are for the recorded fleet, the record names it. */
function meantFleet(waiting: ExpectedFleet | undefined, { expected }: BusAddress): ExpectedFleet | undefined {
  return waiting === undefined || waiting.fleet === expected?.fleet ? expected : waiting;
}

/** A fleet that is started again may have another address by now. Throws BusError if another fleet, or none, is recorded. */
function addressNow(address: BusAddress, env: Environment): BusAddress {
  const { origin, url, expected } = address;
  const now = origin === GIVEN ? address : discoverBus(env);
  if (now.isStale) throw new BusError("unavailable", { url });
  if (expected === undefined || now.expected?.fleet === expected.fleet) return now;
  if (now.expected === undefined) return address;
  throw new BusError("other_fleet", otherFleet(expected, now.expected.fleet, now.url));
}

/**
 * Finds the credentials for each attempt to connect, because a fleet may make its keys after its clients have started. A given file
 * comes first, then a file with a token, then the keys in the home of the fleet at this address. undefined: none, for a bus without credentials.
 */
export function credentialsOf(
  o: Pick<ConnectOptions, "credentials" | "role"> & {
    readonly tenant: string;
    readonly agentId: string;
    readonly url: string;
  },
  env: Environment,
): () => Promise<BusCredentials | undefined> {
  const config = readConfig(clientFields, env);
  const credsFile = o.credentials ?? config.busCredentials;
  if (credsFile !== undefined) return async () => ({ credsFile });
  const { busTokenFile: tokenFile } = config;
  if (tokenFile !== undefined) {
    // A token in clear text could be used by every machine on the way.
    if (!isPrivateBus(o.url, env))
      throw invalid("FLEET_NATS_TOKEN_FILE", "a bus on loopback, a tls:// address or FLEET_NATS_CA", o.url);
    return async () => ({ tokenFile });
  }
  return async () => {
    if (!isBusOfHome(o.url, env)) return undefined;
    const creds = await issueLocally(homeOf(env), {
      role: o.role ?? "agent",
      tenant: o.tenant,
      name: o.agentId,
    });
    return creds === undefined ? undefined : { creds };
  };
}

export interface ClientIdentity {
  readonly tenant: string;
  readonly agentId: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly onWarning: OnWarning;
  readonly redaction?: Redaction | undefined;
}

/** A client over an open bus, which stays open when the client is closed. Its commands are repeated until the deadline, never queued. */
export function clientOver(bus: Bus, identity: ClientIdentity): FleetClient {
  const order = new CommandOrder(identity.clock);
  return new FleetClient({
    ...identity,
    connection: connectionOver(bus),
    order,
    spool: undefined,
    fallback: "none",
  });
}

export interface SpoolSettings {
  readonly path: string;
  readonly bytesMax?: number | undefined;
  /** Absent: commands are not sealed. */
  readonly seal?: SpoolSeal;
  /** The fleet of the commands, which is recorded beside them. */
  readonly note?: SpoolNote;
}

export interface ConnectionSettings extends ClientIdentity {
  readonly fallback: Fallback;
  readonly expected?: ExpectedFleet | undefined;
  /**
   * The spool, chosen after the first attempt to connect. `met`: the identity of the fleet that answered. undefined: commands are not
   * spooled.
   */
  readonly spool: ((met: string | undefined) => Promise<SpoolSettings | undefined>) | undefined;
}

/** A client over a bus that `open` connects to. With a spool it resolves although no bus is available. */
export async function connectClient(
  open: () => Promise<Bus>,
  { spool: spoolOf, expected, ...identity }: ConnectionSettings,
): Promise<FleetClient> {
  const { clock, log } = identity;
  const connection = new PersistentConnection(open, {
    clock,
    log,
    expected,
    onOtherFleet: (error) => warnOfOtherFleet(identity.onWarning, error),
  });
  await connection.start(spoolOf !== undefined);
  const settings = await spoolOf?.(connection.isUp ? connection.bus.fleet : undefined);
  const order = new CommandOrder(clock, settings?.path);
  const spool = settings && openSpool(settings, connection, order, identity);
  if (spool !== undefined) connection.onUp(() => spool.wake());
  await order.load();
  await spool?.start();
  return new FleetClient({ ...identity, connection, order, spool });
}

function openSpool(
  { path, bytesMax, note, seal = new SpoolSeal(undefined) }: SpoolSettings,
  connection: PersistentConnection,
  order: CommandOrder,
  { clock, log, onWarning }: ClientIdentity,
): Spool {
  return new Spool({
    path,
    bytesMax: bytesMax ?? LIMITS.spool_bytes_max,
    seal,
    ...(note !== undefined && { onFirst: () => writeNote({ path, note }) }),
    clock,
    log,
    isUp: () => connection.isUp,
    send: (command) => sendSpooled(connection.bus, command),
    onRemoved: ({ taskId, commandId }) => order.queued(taskId, commandId),
    onAside: ({ reason }, command) => {
      const facts = { spool: path, reason, task_id: command?.taskId, command_id: command?.commandId };
      log.warn(facts, "a line of the spool was set aside");
      warnOfAside(onWarning, path, reason, command);
    },
  });
}

/** Returns the refusals that no repetition can cure; throws the other errors. */
async function sendSpooled(
  bus: Bus,
  command: SpooledCommand,
): Promise<"too_large" | "forbidden" | undefined> {
  try {
    await publishCommand(bus, command, command.body, SEND_MS);
    return undefined;
  } catch (error) {
    const kind = error instanceof BusError ? error.kind : undefined;
    if (kind === "too_large") return "too_large";
    if (kind === "permission") return "forbidden";
    throw error;
  }
}
