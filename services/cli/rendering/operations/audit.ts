// The audit trail for operators: one line for each transition, and the result of recomputing the chain.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { SIGNATURE_PROBLEMS } from "../../../../shared/protocol/signing-keys.ts";
import type { SignatureReport } from "../../../../shared/sdk/sdk.ts";
import { objectOf } from "../../input/checkpoint/checkpoint.ts";
import { signatureBlockText } from "../esign/signatures.ts";
import { briefIds } from "../terminal/elision.ts";
import { pageEnd, tableLines, titleLine } from "../terminal/table.ts";
import { count, counted, plain, principalText, short, shownId } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

interface ShownEntry {
  readonly seq: number;
  readonly entry: string;
  readonly hash: string;
}

export interface AuditTable {
  readonly task: string;
  readonly entries: readonly ShownEntry[];
  /** Those that the entries record. */
  readonly signatures: readonly EsignBlock[];
  readonly next: string | undefined;
}

const HEADS = ["SEQ", "AT", "OP", "ACTOR", "CHECKPOINT", "VERSION", "STATE", "HASH", "ABOUT"];

/** The checkpoints of which the entries record signatures, each once. */
export function signedCheckpoints(entries: readonly ShownEntry[]): string[] {
  const named = entries.map(({ entry }) => parsed(entry)).filter(({ op }) => op === "signature_add");
  return [...new Set(named.map(({ checkpoint_id: id }) => id).filter((id) => typeof id === "string"))];
}

export function renderAudit({ task, entries, signatures, next }: AuditTable, view: View): string {
  const rows = entries.map(({ seq, entry, hash }) => {
    const e = parsed(entry);
    const actor = objectOf(e.actor);
    return [
      count(seq),
      short(e.at ?? "-"),
      short(e.op ?? "-"),
      actorText(actor),
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
    { least: 12, names: true },
    // Failures matter more than checkpoint ids, which `checkpoint list` shows too.
    hasAbout ? { leaves: 4 } : { id: briefIds },
    { leaves: 1 },
    { leaves: 3 },
    { leaves: 2 },
    { least: 12 },
  ] as const;
  return [
    titleLine(`Audit trail of task ${plain(task)}`, view),
    "",
    ...tableLines(
      rows.map((row) => row.slice(0, columns)),
      { heads: HEADS.slice(0, columns), view, right: [0], fit: fit.slice(0, columns) },
    ),
    ...signatureLines(signatures, view),
    "",
    ...pageEnd(counted(entries.length, "entry", "entries"), next, view),
  ].join("\n");
}

/** Printed name, and time with its zone: 21 CFR 11.50. A column has no room for them. */
function signatureLines(signatures: readonly EsignBlock[], view: View): string[] {
  if (signatures.length === 0) return [];
  return [
    "",
    ...signatures.map((one) => `Entry ${count(one.audit_seq)}: signed by ${signatureBlockText(one, view)}`),
  ];
}

const NOTHING = "-";

/** What an entry is about: "crash of agent-7, exit report", "attempt 2", "approval by ada", "places case-12, litigation". */
function aboutText(entry: Readonly<Record<string, unknown>>): string {
  const { op, class: failed, owner_from: owner, signal, attempt, reason, hold, release, request } = entry;
  const parts = [
    op === "signature_add" ? `${words(entry.meaning)} by ${short(entry.signer_subject)}` : null,
    op === "retain" ? `policy ${short(entry.retention_policy ?? "of the settings")}` : null,
    hold == null ? null : `places ${short(hold)}`,
    release == null ? null : `releases ${short(release)}`,
    request == null ? null : `request of entry ${short(request)}`,
    failed == null ? null : `${words(failed)}${owner == null ? "" : ` of ${principalText(short(owner))}`}`,
    signal == null ? null : words(signal),
    attempt == null ? null : `${op === "offer" ? "offer" : "attempt"} ${short(attempt)}`,
    reason == null ? null : words(reason),
    entry.case == null ? null : `case ${short(entry.case)}`,
  ];
  return parts.filter((part) => part !== null).join(", ") || NOTHING;
}

/** "ada (person)", "agent-7", or "reader for ada (person)". */
export function actorText({ id, on_behalf_of: principal }: Readonly<Record<string, unknown>>): string {
  const actor = principalText(short(id ?? "-"));
  return principal == null ? actor : `${actor} for ${principalText(short(principal))}`;
}

const words = (name: unknown): string => short(name).replaceAll("_", " ");

/** An entry that is not JSON is shown as empty. `audit verify` reports the damage. */
export function parsed(entry: string): Readonly<Record<string, unknown>> {
  try {
    return objectOf(JSON.parse(entry));
  } catch {
    return {};
  }
}

export interface AuditReport {
  readonly ok: boolean;
  readonly entries: number;
  readonly head: string;
  readonly problems: readonly { readonly seq: number; readonly problem: string }[];
  /** null: a reader of an older version answered. */
  readonly signatures: SignatureReport | null;
}

const PROBLEMS: Readonly<Record<string, string>> = {
  gap: "an entry is missing before this one",
  broken_link: "it does not contain the hash of the entry before it",
  not_canonical: "its bytes are not in the canonical form that is hashed",
  wrong_head: "the chain does not end with the hash in its head",
  cut_off: "those before it are gone, and no block states that retention has removed them",
  not_as_stated: "the chain of the tenant states another block, or one that is missing",
  ...SIGNATURE_PROBLEMS,
};

const PROBLEMS_SHOWN = 20;

/** `of`: "task auth", or "the tenant". */
export function renderReport(of: string, report: AuditReport, view: View): string {
  const { colors } = view;
  const entries = counted(report.entries, "entry", "entries");
  if (report.ok) {
    const valid = colors.green(`The audit trail of ${of} is valid.`);
    return [valid, `${entries}${signedText(report.signatures)}, head ${report.head}`].join("\n");
  }
  const problems = [...report.problems, ...(report.signatures?.problems ?? [])];
  const shown = problems.slice(0, PROBLEMS_SHOWN);
  const rows = shown.map(({ seq, problem }) => [count(seq), problem, PROBLEMS[problem] ?? ""]);
  return [
    colors.red(`The audit trail of ${of} is NOT valid.`),
    `${entries}, ${counted(problems.length, "problem")}:`,
    "",
    ...tableLines(rows, { heads: ["SEQ", "PROBLEM", "MEANING"], view, right: [0] }),
    ...(problems.length > shown.length ? [`… and ${count(problems.length - shown.length)} more`] : []),
    "",
    "The records were changed outside Fleet: keep the store as it is, and restore it from a backup.",
  ].join("\n");
}

function signedText(signatures: SignatureReport | null): string {
  if (signatures === null) return "; signatures were not checked: the reader is of an older version";
  const { signed, unsigned } = signatures;
  return unsigned === 0
    ? `, ${count(signed)} signed`
    : `, ${count(signed)} signed, ${count(unsigned)} unsigned`;
}
