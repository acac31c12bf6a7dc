/**
 * Checks the server: a version with the necessary fixes and, if the monitoring address is known, that it
 * syncs to disk before it acknowledges. An old server accepts our streams and ignores half of their settings.
 */
import type { ServerInfo } from "@nats-io/transport-node";
import { ERROR_TABLE } from "../protocol/errors.ts";
import { SERVICE_ROLES } from "../protocol/permissions.ts";
import { StartupError } from "../runtime/process/startup.ts";

export const OLDEST_SERVER = "2.10.27";
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

/** Whether this server syncs before it acknowledges. "unknown": its monitoring address does not answer. */
export async function syncsAlways(
  info: ServerInfo,
  monitorUrl: string | undefined,
): Promise<boolean | "unknown"> {
  const varz = await monitored<{ jetstream?: { config?: { sync_always?: boolean } } }>(
    "/varz",
    info,
    monitorUrl,
  );
  return varz === undefined ? "unknown" : varz.jetstream?.config?.sync_always === true;
}

/** `<service>/<host>-<pid>`, in a thread with its number. The names of clients may be those of any tenant. */
const SERVICE_CONNECTION = new RegExp(`^(?:${SERVICE_ROLES.join("|")})/[A-Za-z0-9_-]+$`);

/** The names of the services' connections to this server. null: its monitoring address does not answer. */
export async function serviceConnections(
  info: ServerInfo,
  monitorUrl: string | undefined,
): Promise<string[] | null> {
  const page = await monitored<{ connections?: { name?: string }[] }>(
    `/connz?limit=${CONNECTIONS_MAX}`,
    info,
    monitorUrl,
  );
  if (page === undefined) return null;
  const names = (page.connections ?? []).flatMap(({ name }) => name ?? []);
  return [...new Set(names)].filter((name) => SERVICE_CONNECTION.test(name));
}

/** undefined: no answer, or that of another server, which proves nothing about this one. */
async function monitored<T>(
  path: string,
  info: ServerInfo,
  monitorUrl: string | undefined,
): Promise<T | undefined> {
  if (monitorUrl === undefined) return undefined;
  try {
    const answer = await fetch(new URL(path, monitorUrl), { signal: AbortSignal.timeout(PROBE_MS) });
    const found = (await answer.json()) as T & { server_id?: string };
    return found.server_id === info.server_id ? found : undefined;
  } catch {
    return undefined;
  }
}
