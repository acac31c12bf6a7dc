/** The counts of a run as text, with one column for each round. */

import type { Violation } from "./checker/evidence.ts";
import { leastShare, type RecoveryCounts, type Spread } from "./checker/recovery/recovery-counts.ts";
import type { Availabilities, Availability } from "./plan/availability.ts";
import type { RoundResult } from "./round.ts";

type Counts = Readonly<Record<string, number>>;

const VIOLATIONS_SHOWN = 10;

/** Blocks of counts, followed by the violations. */
export function formatReport(rounds: readonly RoundResult[]): string {
  const blocks = [
    table("operations, by outcome", rounds, ({ operations }) => operations),
    table("copies of commands, by outcome", rounds, ({ copies }) => copies),
    table("faults", rounds, ({ faults }) => faults),
    table("seconds with an answered write, %", rounds, ({ availability }) => shares(availability), "-"),
    table(
      "longest time without an answered write, ms",
      rounds,
      ({ availability }) => numbers(availability, (one) => one.longest_gap_ms),
      "-",
    ),
    table("kills at kill points", rounds, ({ kill_points }) => kill_points),
    table("handoffs, by end", rounds, ({ handoffs }) => ({
      requested: handoffs.requested,
      accepted: handoffs.accepted,
      "repeated offers": handoffs.offered_again,
      "refused acceptances": handoffs.acceptances_refused,
      ...handoffs.ends,
    })),
    table("recoveries", rounds, ({ recoveries }) => recoveriesIn(recoveries)),
    table("failures, by class and signal", rounds, ({ recoveries }) => recoveries.failures),
    table("tasks of workers, by kind and end", rounds, ({ recoveries }) => recoveries.tasks),
    table("removals and holds", rounds, ({ removals }) => removals),
    table("handoffs open at a kill, by state", rounds, ({ handoffs }) => handoffs.open_at_kills),
    table("checked", rounds, (round) => ({
      ...round.checked,
      "zombies tried": round.zombies.tried,
      "zombies refused": round.zombies.refused,
      "zombies without an answer": round.zombies.unanswered,
      "zombies after a handoff": round.zombies.after_handoff,
      "commands queued": round.queue.queued,
      "commands spooled": round.queue.spooled,
      "dead letters": round.queue.dead,
      "restarts after a kill": round.restarts.after_kill,
      "restarts after an unexpected exit": round.restarts.own,
      "ms until idle": round.idle_ms,
      VIOLATIONS: round.violations.length,
    })),
  ];
  return [...blocks, successOf(rounds), ...rounds.flatMap(problems)].join("\n\n");
}

function shares(availability: Availabilities): Counts {
  return numbers(availability, ({ seconds, answered }) =>
    seconds === 0 ? 100 : Math.round((1_000 * answered) / seconds) / 10,
  );
}

function numbers(availability: Availabilities, of: (one: Availability) => number): Counts {
  return Object.fromEntries(Object.entries(availability).map(([kind, one]) => [kind, of(one)]));
}

function recoveriesIn(counts: RecoveryCounts): Counts {
  const { tried, succeeded, superseded, failed, attempts, could_not, detect_ms, resume_ms } = counts;
  const spread = (name: string, { p50, p99, worst }: Spread): [string, number][] => [
    [`${name} ms, p50`, p50],
    [`${name} ms, p99`, p99],
    [`${name} ms, worst`, worst],
  ];
  return {
    ...{ tried, succeeded, superseded, failed, attempts },
    ...Object.fromEntries(Object.entries(could_not).map(([why, count]) => [`blocked: ${why}`, count])),
    ...Object.fromEntries(
      Object.entries(detect_ms).flatMap(([signal, of]) => spread(`detect ${signal}`, of)),
    ),
    ...Object.fromEntries(spread("resume", resume_ms)),
  };
}

/** The success rate over all rounds. */
function successOf(rounds: readonly RoundResult[]): string {
  const sum = (of: (counts: RecoveryCounts) => number): number =>
    rounds.reduce((total, { recoveries }) => total + of(recoveries), 0);
  const [succeeded, failed] = [sum((counts) => counts.succeeded), sum((counts) => counts.failed)];
  const percent = (share: number): string => `${(100 * share).toFixed(3)} %`;
  return [
    `possible recoveries: ${succeeded + failed}; succeeded: ${succeeded}`,
    `(${percent(succeeded / Math.max(1, succeeded + failed))}; with 95 % confidence at least ${percent(leastShare(succeeded, failed))})`,
  ].join(" ");
}

/** `missing`: the cell of a round without the row. */
function table(
  title: string,
  rounds: readonly RoundResult[],
  of: (round: RoundResult) => Counts,
  missing = "0",
): string {
  const columns = rounds.map(of);
  const names = [...new Set(columns.flatMap((counts) => Object.keys(counts)))];
  const rows = names.map((name) => [
    name.replaceAll("_", " "),
    ...columns.map((counts) => counts[name]?.toLocaleString("en-US") ?? missing),
  ]);
  return aligned([[title, ...rounds.map(({ name }) => name)], ...rows]);
}

function aligned(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  const cell = (text: string, i: number): string =>
    i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!);
  return rows
    .map(
      (row, i) =>
        `${i === 0 ? "" : "  "}${cell(row[0]!, 0).slice(0, widths[0]! + (i === 0 ? 2 : 0))}${i === 0 ? "  " : ""}  ${row
          .slice(1)
          .map((text, j) => cell(text, j + 1))
          .join("  ")}`,
    )
    .join("\n");
}

function problems({ name, violations, evidence }: RoundResult): string[] {
  if (violations.length === 0) return [];
  const kinds = Map.groupBy(violations, ({ kind }) => kind);
  const lines = [...kinds].flatMap(([kind, found]) => [
    `  ${kind}: ${found.length}`,
    ...found.slice(0, VIOLATIONS_SHOWN).map((one) => `    ${describe(one)}`),
  ]);
  return [[`VIOLATIONS in ${name}; evidence in ${evidence ?? "no folder"}`, ...lines].join("\n")];
}

function describe({ task, text, details }: Violation): string {
  return `${task === null ? "" : `${task}: `}${text} ${JSON.stringify(details)}`;
}
