/**
 * Decides whether a running nats-server must restart. After a failed write, usually because of a full disk, it refuses every further
 * write to that stream until its next start, even if there is room again. In the meantime it looks healthy and answers requests.
 */
import { statfsSync } from "node:fs";

const HEALTH_MS = 1_000;
/** With less room a restart would fail, and with it the requests that the old server still serves. */
const FREE_BYTES_MIN = 32 * 1024 * 1024;

/** `dir` is the server's folder. False if the server does not answer: the supervisor, which waits for its exit, handles that. */
export async function needsRestart(server: { readonly monitorUrl: string }, dir: string): Promise<boolean> {
  try {
    const answer = await fetch(new URL("/healthz", server.monitorUrl), {
      signal: AbortSignal.timeout(HEALTH_MS),
    });
    if (answer.ok) return false;
    const { error } = (await answer.json()) as { error?: string };
    const { bavail, bsize } = statfsSync(dir);
    return /\bwrite error\b/.test(error ?? "") && bavail * bsize > FREE_BYTES_MIN;
  } catch {
    return false;
  }
}
