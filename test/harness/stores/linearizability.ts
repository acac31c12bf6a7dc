// Linearizability: the results of all callers fit one order. Every write returns its place in the order (a seq, a version or a commit
// position), so the check need not search for one. It is enough that real time does not contradict it: no call may return before a call with
// an earlier place is invoked.

export interface Call {
  readonly kind: "write" | "read";
  /** The place of the write, or of the write that the read returned; null: the read returned no write. */
  readonly place: number | null;
  /** By one clock for all callers, in milliseconds. */
  readonly invoked: number;
  readonly returned: number;
  /** The caller, for the report. */
  readonly by: string;
}

const NOTHING = Number.NEGATIVE_INFINITY;

/** Descriptions of the contradictions, at most ten; empty when the history is linearizable. */
export function contradictions(history: readonly Call[]): string[] {
  const place = (call: Call): number => call.place ?? NOTHING;
  const calls = [...history].sort(
    (a, b) => place(a) - place(b) || (a.kind === b.kind ? 0 : a.kind === "write" ? -1 : 1),
  );
  const found: string[] = [];
  const written = new Set<number>();
  /** The last invocation among the calls that precede the current one: writes up to its place, reads of earlier places. */
  let before: Call | undefined;
  let sameReads: Call[] = [];
  let current = NOTHING;
  const later = (a: Call | undefined, b: Call): Call => (a === undefined || b.invoked > a.invoked ? b : a);
  for (const call of calls) {
    if (place(call) !== current) {
      for (const read of sameReads) before = later(before, read);
      sameReads = [];
      current = place(call);
    }
    if (call.kind === "write" && written.has(current)) found.push(`two writes have the place ${current}`);
    if (call.kind === "read" && call.place !== null && !written.has(call.place))
      found.push(`${call.by} read ${call.place}, which no caller wrote`);
    if (before !== undefined && call.returned < before.invoked) {
      found.push(
        `${call.kind} of ${call.place} by ${call.by} returned before ${before.kind} of ${before.place} by ${before.by} began`,
      );
    }
    if (call.kind === "write") {
      written.add(current);
      before = later(before, call);
    } else sameReads.push(call);
  }
  return found.slice(0, 10);
}
