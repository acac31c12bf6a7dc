// Whether a measure stays flat: the line through its samples after the warm-up, against the limit of its kind. What the fleet keeps by
// design, such as the audit trail, grows with the work; it is compared with the commands, and its limit is a cost of one command.

import { KINDS, type Kind, type Sample } from "../sizes/sample.ts";
import { fitLine, type Line } from "./fit.ts";
import { type Growth, limitOf } from "./limits.ts";

export type Verdict =
  /** With 95 % confidence the growth is within the limit. */
  | "flat"
  /** It grows with the commands, and within the limit. */
  | "kept"
  /** With 95 % confidence the growth is over the limit. */
  | "grows"
  /** The limit is within the confidence interval: only a longer run can decide. */
  | "unclear"
  /** The measure has no limit; its parts have. */
  | "not judged";

export interface Judged {
  readonly subject: string;
  readonly kind: Kind;
  readonly first: number;
  readonly last: number;
  /** The growth per hour. Absent: there are too few samples. */
  readonly line: Line | undefined;
  readonly limit: Growth | null;
  /** The growth per command, if the limit is one per command. */
  readonly perCommand: Line | undefined;
  readonly verdict: Verdict;
}

export function judgeAll(samples: readonly Sample[], warmUpHours: number): Judged[] {
  const steady = samples.filter(({ hours }) => hours >= warmUpHours);
  const subjects = new Set(steady.flatMap(({ values }) => Object.keys(values)));
  return [...subjects].sort().flatMap((subject) =>
    (Object.keys(KINDS) as Kind[]).flatMap((kind) => {
      const judged = judge(steady, subject, kind);
      return judged === undefined ? [] : [judged];
    }),
  );
}

function judge(steady: readonly Sample[], subject: string, kind: Kind): Judged | undefined {
  const known = steady.flatMap(({ hours, commands, values }) => {
    const y = values[subject]?.[kind];
    return y === undefined ? [] : [{ hours, commands, y }];
  });
  const [first, last] = [known[0], known.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  const line = fitLine(known.map(({ hours: x, y }) => ({ x, y })));
  const limit = limitOf(subject, kind);
  const perCommand =
    limit?.per === "command" ? fitLine(known.map(({ commands: x, y }) => ({ x, y }))) : undefined;
  const verdict = verdictOf(limit?.per === "command" ? perCommand : line, limit);
  return { subject, kind, first: first.y, last: last.y, line, limit, perCommand, verdict };
}

export function verdictOf(line: Line | undefined, limit: Growth | null): Verdict {
  if (limit === null) return "not judged";
  if (line === undefined) return "unclear";
  const max = allowed(limit, line.mean);
  if (line.low > max) return "grows";
  if (line.high > max) return "unclear";
  return limit.per === "command" ? "kept" : "flat";
}

/** The limit of the growth of a measure with this mean. */
export function allowed({ amount, share = 0 }: Growth, mean: number): number {
  return Math.max(amount, share * Math.abs(mean));
}
