/**
 * Checks the server: a version with the necessary fixes and, if the monitoring address is known, that it
 * syncs to disk before it acknowledges. An old server accepts our streams and ignores half of their settings.
 */
import type { ServerInfo } from "@nats-io/transport-node";
import { ERROR_TABLE } from "../protocol/errors.ts";
import { StartupError } from "../runtime/process/startup.ts";

export const OLDEST_SERVER = "2.10.27";
/** Atomic batches exist since 2.12.0. Since this version they also check message ids. */
const ATOMIC_SINCE = "2.12.1";
const PROBE_MS = 2_000;

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
  if (monitorUrl === undefined) return "unknown";
  try {
    const answer = await fetch(new URL("/varz", monitorUrl), { signal: AbortSignal.timeout(PROBE_MS) });
    const varz = (await answer.json()) as {
      server_id?: string;
      jetstream?: { config?: { sync_always?: boolean } };
    };
    // The address may be that of another server, which proves nothing about this one.
    if (varz.server_id !== info.server_id) return "unknown";
    return varz.jetstream?.config?.sync_always === true;
  } catch {
    return "unknown";
  }
}
