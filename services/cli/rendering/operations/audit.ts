// The audit trail for people: one line for each transition, and what came of recomputing the chain.

import { objectOf } from "../../input/checkpoint.ts";
import { tableLines } from "../terminal/table.ts";
import { count, counted, plain, short, shownId } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

interface ShownEntry {
  readonly seq: number;
  readonly entry: string;
  readonly hash: string;
}

export interface AuditText {
  readonly task: string;
  readonly entries: readonly ShownEntry[];
  readonly next: string | undefined;
}

const HEADS = ["SEQ", "AT", "OP", "ACTOR", "CHECKPOINT", "VERSION", "STATE", "HASH", "ABOUT"];

export function renderAudit({ task, entries, next }: AuditText, view: View): string {
  const rows = entries.map(({ seq, entry, hash }) => {
    const e = parsed(entry);
    const actor = objectOf(e.actor);
    return [
      count(seq),
      short(e.at ?? "-"),
      short(e.op ?? "-"),
      short(actor.id ?? "-"),
      typeof e.checkpoint_id === "string" ? plain(shownId(e.checkpoint_id)) : "-",
      short(e.version ?? "-"),
      e.state_from === e.state_to
        ? short(e.state_to ?? "-")
        : `${short(e.state_from ?? "new")} > ${short(e.state_to)}`,
      hash.slice(0, 12),
      aboutText(e),
    ];
  });
  const hasAbout = rows.some((row) => row.at(-1) !== NOTHING);
  const columns = hasAbout ? HEADS.length : HEADS.length - 1;
  const fit = [
    undefined,
    { brief: (at: string) => ago(at, view.now) },
    { least: 8 },
    { least: 8 },
    // Where it is about failures, they are what is looked for; `checkpoints list` has the ids too.
    hasAbout ? { leaves: 4 } : undefined,
    { leaves: 1 },
    { leaves: 3 },
    { leaves: 2 },
    { least: 12 },
  ];
  return [
    `Audit trail of task ${plain(task)}`,
    "",
    ...tableLines(
      rows.map((row) => row.slice(0, columns)),
      { heads: HEADS.slice(0, columns), view, right: [0], fit: fit.slice(0, columns) },
    ),
    "",
    ...(next === undefined
      ? [`Total shown: ${counted(entries.length, "entry", "entries")}`]
      : [`${counted(entries.length, "entry", "entries")}; more with:`, `  ${view.colors.cyan(next)}`]),
  ].join("\n");
}

const NOTHING = "-";

/** Of failures and attempts, why and which one: "crash of agent-7, exit report", "attempt 2". */
function aboutText(entry: Readonly<Record<string, unknown>>): string {
  const { class: failed, owner_from: owner, signal, attempt, reason } = entry;
  const parts = [
    failed == null ? null : `${words(failed)}${owner == null ? "" : ` of ${short(owner)}`}`,
    signal == null ? null : words(signal),
    attempt == null ? null : `attempt ${short(attempt)}`,
    reason == null ? null : words(reason),
  ];
  return parts.filter((part) => part !== null).join(", ") || NOTHING;
}

const words = (name: unknown): string => short(name).replaceAll("_", " ");

/** An entry that is no JSON is shown as empty; `audit verify` is there to say what is wrong with it. */
function parsed(entry: string): Readonly<Record<string, unknown>> {
  try {
    return objectOf(JSON.parse(entry));
  } catch {
    return {};
  }
}

export interface ReportText {
  readonly ok: boolean;
  readonly entries: number;
  readonly head: string;
  readonly problems: readonly { readonly seq: number; readonly problem: string }[];
}

const PROBLEMS: Readonly<Record<string, string>> = {
  gap: "an entry is missing before this one",
  broken_link: "it does not name the hash of the entry before it",
  not_canonical: "its bytes are not those that are hashed",
  wrong_head: "the chain does not end where the task says it does",
};

const PROBLEMS_SHOWN = 20;

export function renderReport(task: string, report: ReportText, view: View): string {
  const { colors } = view;
  const entries = counted(report.entries, "entry", "entries");
  if (report.ok) {
    return [
      colors.green(`The audit trail of task ${plain(task)} verifies.`),
      `${entries}, head ${report.head}`,
    ].join("\n");
  }
  const shown = report.problems.slice(0, PROBLEMS_SHOWN);
  const rows = shown.map(({ seq, problem }) => [count(seq), problem, PROBLEMS[problem] ?? ""]);
  return [
    colors.red(`The audit trail of task ${plain(task)} does NOT verify.`),
    `${entries}, ${counted(report.problems.length, "problem")}:`,
    "",
    ...tableLines(rows, { heads: ["SEQ", "PROBLEM", "MEANING"], view, right: [0] }),
    ...(report.problems.length > shown.length
      ? [`… and ${count(report.problems.length - shown.length)} more`]
      : []),
    "",
    "Something changed the records outside Fleet: keep the store as it is and tell your operator.",
  ].join("\n");
}
