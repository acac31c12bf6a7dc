/** The meaning of a receiver's answer, by the Standard Webhooks specification and HTTP. */

export interface Reply {
  readonly status: number;
  /** The Retry-After header. */
  readonly retryAfter: string | null;
}

export type Verdict =
  | { readonly done: true }
  /** A later post may be accepted, not before `afterMs`. */
  | { readonly done: false; readonly again: true; readonly afterMs: number }
  /** Every later post would be refused. */
  | { readonly done: false; readonly again: false };

/** Request Timeout, Too Early, Too Many Requests. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429]);
/** Cap on the delay that a header may ask for. */
const AFTER_MS_MAX = 3_600_000;

export function verdictOf({ status, retryAfter }: Reply, nowMs: number): Verdict {
  if (status >= 200 && status < 300) return { done: true };
  if (status < 500 && !TEMPORARY.has(status)) return { done: false, again: false };
  return { done: false, again: true, afterMs: afterMs(retryAfter, nowMs) };
}

/** The header holds seconds or a date; anything else is ignored. */
function afterMs(header: string | null, nowMs: number): number {
  const text = header?.trim() ?? "";
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? 0 : Math.min(Math.max(0, ms), AFTER_MS_MAX);
}
