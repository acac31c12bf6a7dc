// The tokens and the money of a task.

import type { Segment, Spending } from "../../../../shared/sdk/task-cost.ts";
import { tableLines } from "../terminal/table.ts";
import { count, counted, moneyText, plain, principalText } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

const NOT_REPORTED = "-";

export function renderSegments(
  { segments, total }: { readonly segments: readonly Segment[]; readonly total: Spending },
  view: View,
): string {
  const heads = ["CHECKPOINTS", "AGENT", "PHASE", "MODEL", "TOKENS", "COST"];
  const rows = segments.map(({ first_seq: first, last_seq: last, agent_id, phase, model, ...spent }) => [
    first === last ? `#${first}` : `#${first} to #${last}`,
    principalText(agent_id),
    plain(phase),
    plain(model ?? NOT_REPORTED),
    count(spent.tokens),
    costText(spent),
  ]);
  const fit = [undefined, { least: 8, names: true }, undefined, { least: 8, names: true }] as const;
  const lines = tableLines(rows, { heads, view, right: [4, 5], fit });
  return [...lines, "", `${counted(segments.length, "segment")}: ${totalText(total)}`].join("\n");
}

interface Grouped {
  readonly by: "agent" | "phase" | "model";
  readonly rows: readonly (Spending & { readonly key: string | null })[];
  readonly total: Spending;
}

export function renderSpending({ by, rows, total }: Grouped, view: View): string {
  const heads = [by.toUpperCase(), "CHECKPOINTS", "TOKENS", "COST"];
  const name = (key: string | null) =>
    key === null ? NOT_REPORTED : by === "agent" ? principalText(key) : plain(key);
  const cells = rows.map(({ key, ...spent }) => [
    name(key),
    count(spent.checkpoints),
    count(spent.tokens),
    costText(spent),
  ]);
  const lines = tableLines(cells, { heads, view, right: [1, 2, 3], fit: [{ least: 8, names: true }] });
  return [...lines, "", totalText(total)].join("\n");
}

const costText = ({ money }: Spending): string =>
  money.length === 0
    ? NOT_REPORTED
    : money.map(({ amount, currency }) => moneyText(amount, currency)).join(" + ");

const totalText = (spent: Spending): string =>
  [
    counted(spent.checkpoints, "checkpoint"),
    counted(spent.tokens, "token"),
    spent.money.length === 0 ? "no cost reported" : costText(spent),
  ].join(", ");
