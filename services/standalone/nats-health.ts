/**
 * Whether a running nats-server has to be started again. After a failed write, of a full disk most of all, it refuses every further
 * write to that stream until its next start, also when there is room again; meanwhile it looks alive and answers requests.
 */
import { statfsSync } from "node:fs";

const ASK_MS = 1_000;
/** With less room a new start would fail, and requests would fail with it, which the old server still serves. */
const FREE_BYTES_MIN = 32 * 1024 * 1024;

/** `dir`: where it writes. False when the server does not answer: that is for those to judge who wait for its end. */
export async function needsRestart(server: { readonly monitorUrl: string }, dir: string): Promise<boolean> {
  try {
    const answer = await fetch(new URL("/healthz", server.monitorUrl), {
      signal: AbortSignal.timeout(ASK_MS),
    });
    if (answer.ok) return false;
    const { error } = (await answer.json()) as { error?: string };
    const { bavail, bsize } = statfsSync(dir);
    return /\bwrite error\b/.test(error ?? "") && bavail * bsize > FREE_BYTES_MIN;
  } catch {
    return false;
  }
}
