// The audit chain of the tenant's operators: one line for each act.

import { objectOf } from "../../input/checkpoint/checkpoint.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { count, counted, short } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { type AuditTable, actorText, parsed } from "./audit.ts";

export function renderTenantAudit(
  { entries, next }: Omit<AuditTable, "task" | "signatures">,
  view: View,
): string {
  const rows = entries.map(({ seq, entry, hash }) => {
    const { at, action, actor, subject } = parsed(entry);
    return [
      count(seq),
      short(at ?? "-"),
      short(action ?? "-"),
      actorText(objectOf(actor)),
      subjectText(objectOf(subject)),
      hash.slice(0, 12),
    ];
  });
  const fit = [
    undefined,
    { brief: (at: string) => ago(at, view.now) },
    { least: 18 },
    { least: 12, names: true },
    { least: 12, names: true },
    { leaves: 1 },
  ] as const;
  return [
    "Audit trail of the tenant's operators",
    "",
    ...tableLines(rows, { heads: ["SEQ", "AT", "ACT", "ACTOR", "SUBJECT", "HASH"], view, right: [0], fit }),
    "",
    ...pageEnd(counted(entries.length, "entry", "entries"), next, view),
  ].join("\n");
}

/** "letter 7, task auth": each fact of the subject with its name. */
function subjectText(subject: Readonly<Record<string, unknown>>): string {
  const facts = Object.entries(subject).map(
    ([name, value]) => `${name.replaceAll("_", " ")} ${short(value)}`,
  );
  return facts.join(", ") || "-";
}
