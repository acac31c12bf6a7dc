// Frequent callers share the result of work that is too expensive to do for each of them.

import type { Clock } from "./clock.ts";

/** Repeats `work` only when its last result is older than `maxAgeMs`; until then every call gets that result, or its error. */
export function recentResult<T>(
  work: () => Promise<T>,
  { maxAgeMs, clock }: { readonly maxAgeMs: number; readonly clock: Clock },
): () => Promise<T> {
  let latest: { readonly at: number; readonly result: Promise<T> } | null = null;
  return () => {
    if (latest === null || clock.monotonic() - latest.at > maxAgeMs)
      latest = { at: clock.monotonic(), result: work() };
    return latest.result;
  };
}
