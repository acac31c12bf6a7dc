/** What a receiver's answer means, as the Standard Webhooks specification and HTTP have it. */

export interface Reply {
  readonly status: number;
  /** The header of that name. */
  readonly retryAfter: string | null;
}

export type Verdict =
  | { readonly done: true }
  /** It may be taken later; `afterMs`: not before. */
  | { readonly done: false; readonly again: true; readonly afterMs: number }
  /** It would be refused again. */
  | { readonly done: false; readonly again: false };

/** Timeouts, a request that came too early, too many of them. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);
/** Nobody is kept waiting for longer by a header. */
const AFTER_MS_MAX = 3_600_000;

export function verdictOf({ status, retryAfter }: Reply, nowMs: number): Verdict {
  if (status >= 200 && status < 300) return { done: true };
  if (status < 500 && !PASSING.has(status)) return { done: false, again: false };
  return { done: false, again: true, afterMs: afterMs(retryAfter, nowMs) };
}

/** Seconds, or a date; what is neither says nothing. */
function afterMs(header: string | null, nowMs: number): number {
  const text = header?.trim() ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), AFTER_MS_MAX);
}
