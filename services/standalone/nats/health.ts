/**
 * Decides whether a running nats-server must restart. After a failed write, usually because of a full disk, it refuses every further
 * write to that stream until its next start, even if there is room again. In the meantime it looks healthy and answers requests.
 */
import { statfsSync } from "node:fs";

const HEALTH_MS = 1_000;
/** With less room a restart would fail, and with it the requests that the old server still serves. */
const FREE_BYTES_MIN = 32 * 1024 * 1024;

/** `unwritable`: it must restart as soon as there is room. */
export type NatsHealth = "ok" | "unwritable" | "restart";

/** `dir` is the server's folder. `ok` if the server does not answer: the supervisor, which waits for its exit, handles that. */
export async function natsHealth(server: { readonly monitorUrl: string }, dir: string): Promise<NatsHealth> {
  try {
    const answer = await fetch(new URL("/healthz", server.monitorUrl), {
      signal: AbortSignal.timeout(HEALTH_MS),
    });
    // Also of a healthy server: an answer that is not read keeps its connection from the next request.
    const { error } = (await answer.json()) as { error?: string };
    if (!/\bwrite error\b/.test(error ?? "")) return "ok";
    const { bavail, bsize } = statfsSync(dir);
    return bavail * bsize > FREE_BYTES_MIN ? "restart" : "unwritable";
  } catch {
    return "ok";
  }
}
