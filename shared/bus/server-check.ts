/**
 * Checks the servers of the bus: a version with the necessary fixes and, where the monitoring address is known, that a server
 * syncs to disk before it acknowledges. An old server accepts our streams and ignores half of their settings.
 */
import type { ServerInfo } from "@nats-io/transport-node";
import { ERROR_TABLE } from "../protocol/errors.ts";
import { SERVICE_ROLES } from "../protocol/roles.ts";
import { StartupError } from "../runtime/process/startup.ts";
import { parseServerName } from "./server-name.ts";

/**
 * Earlier servers ignore members of a request that their JetStream API does not know. A confirmation of a stored message, which goes to the reply address
 * that the client chose, would be such a request, and remove messages of other streams.
 */
export const OLDEST_SERVER = "2.12.0";
/** Since this version the known losses of streams after a crash are fixed. */
export const RECOMMENDED_SERVER = "2.14.7";
/** Atomic batches exist since 2.12.0. Since this version they also check message ids. */
const ATOMIC_SINCE = "2.12.1";
const PROBE_MS = 2_000;
const CONNECTIONS_MAX = 10_000;

export function isVersionAtLeast(version: string, oldest: string): boolean {
  const numbers = (text: string) => text.split(/[.+-]/, 3).map(Number);
  const [have, need] = [numbers(version), numbers(oldest)];
  for (let place = 0; place < 3; place++) {
    const difference = (have[place] || 0) - (need[place] || 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

export function knowsAtomicBatches(info: ServerInfo | undefined): boolean {
  return info !== undefined && isVersionAtLeast(info.version, ATOMIC_SINCE);
}

/** Throws StartupError. */
export function requireVersion(found: string): void {
  if (isVersionAtLeast(found, OLDEST_SERVER)) return;
  throw new StartupError("the NATS server is too old", {
    exitCode: ERROR_TABLE.UNAVAILABLE.exit,
    details: { found, needed: OLDEST_SERVER },
    hint: "upgrade nats-server, or let Fleet start its own",
  });
}

/** What a server of the bus reports about itself. */
interface ServerFacts {
  /** Whether this connection leads to it. */
  readonly isOwn: boolean;
  readonly name: string;
  readonly version: string;
  /** Whether it syncs before it acknowledges. null: it keeps no streams. */
  readonly syncAlways: boolean | null;
  /** The names of the services' connections to it. */
  readonly connections: readonly string[];
}

export interface MonitoredServer {
  readonly address: string;
  /** null: nothing answers there, or a server of another bus, which proves nothing about this one. */
  readonly facts: ServerFacts | null;
}

/** Asks each monitoring address of the bus. `monitorUrls`: one or several, separated by commas. */
export function monitoredServers(
  info: ServerInfo,
  monitorUrls: string | undefined,
): Promise<MonitoredServer[]> {
  const addresses = (monitorUrls ?? "").split(",").map((one) => one.trim());
  return Promise.all(
    [...new Set(addresses)]
      .filter((address) => address !== "")
      .map(async (address) => ({ address, facts: await factsOf(info, address) })),
  );
}

/** `<service>/<host>-<pid>`, in a thread with its number. The names of clients may be those of any tenant. */
const SERVICE_CONNECTION = new RegExp(`^(?:${SERVICE_ROLES.join("|")})/[A-Za-z0-9_-]+$`);

interface Varz {
  readonly server_id?: string;
  readonly server_name?: string;
  readonly version?: string;
  readonly cluster?: { readonly name?: string };
  readonly jetstream?: { readonly config?: { readonly sync_always?: boolean } };
}

async function factsOf(info: ServerInfo, address: string): Promise<ServerFacts | null> {
  const [varz, connz] = await Promise.all([
    answerOf<Varz>(address, "/varz"),
    answerOf<{ connections?: { name?: string }[] }>(address, `/connz?limit=${CONNECTIONS_MAX}`),
  ]);
  if (varz === undefined || connz === undefined || !isOfBus(varz, info)) return null;
  const { server_id, server_name = "", version = "", jetstream } = varz;
  const names = new Set((connz.connections ?? []).flatMap(({ name }) => name ?? []));
  const config = jetstream?.config;
  return {
    isOwn: server_id === info.server_id,
    name: server_name,
    version,
    syncAlways: config === undefined ? null : config.sync_always === true,
    connections: [...names].filter((name) => SERVICE_CONNECTION.test(name)),
  };
}

/** The same server, or another one of its cluster and its fleet. */
function isOfBus({ server_id, server_name, cluster }: Varz, info: ServerInfo): boolean {
  if (server_id === undefined) return false;
  if (server_id === info.server_id) return true;
  const isSameFleet = parseServerName(server_name).fleet === parseServerName(info.server_name).fleet;
  return info.cluster !== undefined && cluster?.name === info.cluster && isSameFleet;
}

async function answerOf<T>(address: string, path: string): Promise<T | undefined> {
  try {
    const answer = await fetch(new URL(path, address), { signal: AbortSignal.timeout(PROBE_MS) });
    return (await answer.json()) as T;
  } catch {
    return undefined;
  }
}
