// Calls a function again until it succeeds. It gives up by count, by deadline, by kind of error and on stop,
// and it always throws the last real error, so the reason of a failure is never replaced by "gave up". Loops
// that end for other reasons, such as an answer that changes the next attempt, use backoffMs alone.

import type { Clock } from "./clock.ts";

export interface Backoff {
  /** Upper bound of the first delay; it doubles with every attempt. */
  baseMs: number;
  maxMs: number;
  random?: () => number;
}

/**
 * Delay after failed attempt number `attempt` (1, 2, …) with full jitter: anything from 0 to the bound, so
 * that many processes that failed together do not come back together.
 */
export function backoffMs(attempt: number, { baseMs, maxMs, random = Math.random }: Backoff): number {
  return random() * Math.min(maxMs, baseMs * 2 ** Math.max(0, attempt - 1));
}

export interface RetryOptions extends Partial<Backoff> {
  clock: Clock;
  /** The limit of calls of `fn`, including the first. Default 3. */
  attempts?: number;
  /** No attempt starts later than this many milliseconds after the first. Default: no limit. */
  deadlineMs?: number;
  /** Whether the same call may succeed later. Default: every error. */
  retryable?: (error: unknown) => boolean;
  signal?: AbortSignal | undefined;
}

/**
 * Calls `fn` with the attempt number. Throws the last error, or the abort reason when aborted before the
 * start.
 */
export async function withRetries<T>(options: RetryOptions, fn: (attempt: number) => Promise<T>): Promise<T> {
  const { clock, signal, attempts = 3, deadlineMs = Infinity, retryable = () => true } = options;
  const { baseMs = 50, maxMs = 2_000, random = Math.random } = options;
  signal?.throwIfAborted();
  const deadline = clock.monotonic() + deadlineMs;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await fn(attempt);
    } catch (error) {
      if (attempt >= attempts || !retryable(error)) throw error;
      const delay = backoffMs(attempt, { baseMs, maxMs, random });
      if (clock.monotonic() + delay > deadline) throw error;
      await clock.sleep(delay, signal);
      if (signal?.aborted) throw error;
    }
  }
}
