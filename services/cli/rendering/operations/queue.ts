// The queue and its dead letters, for operators.

import type { DeadLetter, QueueStatus, RetriedLetter } from "../../../../shared/protocol/queue-queries.ts";
import { field } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { bytesText, count, counted, percentText, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderQueue(queue: QueueStatus, view: View): string {
  const { colors } = view;
  const since = queue.oldest_age_ms === null ? "" : `, the oldest for ${span(queue.oldest_age_ms)}`;
  const full = queue.bytes_max === 0 ? 0 : (queue.bytes / queue.bytes_max) * 100;
  const size = `${bytesText(queue.bytes)} of ${bytesText(queue.bytes_max)} (${percentText(full)})`;
  const dead = count(queue.dead);
  return [
    field("Store", queue.store === "ok" ? colors.green("ok") : colors.red(storeText(queue)), view),
    field("Waiting", `${counted(queue.depth, "command")}${since}`, view),
    field("Size", full < 80 ? size : colors.yellow(size), view),
    field("Processed", counted(queue.left_total, "command"), view),
    field("Dead letters", queue.dead === 0 ? dead : colors.yellow(dead), view),
  ].join("\n");
}

function storeText({ store, accepts = true }: QueueStatus): string {
  const problem = store === "full" ? "its disk is full" : "unavailable";
  return `${problem}; commands are ${accepts ? "queued" : "refused, because the disk of the queue is full"}`;
}

export interface LetterTable {
  readonly letters: readonly DeadLetter[];
  readonly next: string | undefined;
  /** The name of the program in printed commands. */
  readonly fleet: string;
}

const FIT = [
  undefined,
  { brief: brieflyAgo },
  { least: 10, names: true },
  { leaves: 1 },
  { least: 10, names: true },
  undefined,
  { least: 16 },
] as const;

export function renderLetters({ letters, next, fleet }: LetterTable, view: View): string {
  if (letters.length === 0) return "No dead letters.";
  const heads = ["NUMBER", "WHEN", "AGENT", "OP", "TASK", "REASON", "WHAT"];
  const rows = letters.map((letter) => [
    String(letter.seq),
    ago(letter.dead_at, view.now),
    principalText(letter.agent_id ?? "-"),
    plain(letter.op ?? "-"),
    plain(letter.task_id ?? "-"),
    view.colors.yellow(plain(letter.reason)),
    letter.applied_at === null
      ? plain(letter.error.message)
      : `${view.colors.green("applied in the meantime")}, ${ago(letter.applied_at, view.now)}; the error was: ${plain(letter.error.message)}`,
  ]);
  return [
    ...tableLines(rows, { heads, view, right: [0], fit: FIT }),
    "",
    ...pageEnd(counted(letters.length, "letter"), next, view),
    `Retry: \`${fleet} queue dead retry <number>\``,
    `Drop: \`${fleet} queue dead drop <number>\``,
  ].join("\n");
}

export function renderRetriedLetter({ seq, position, applied_at }: RetriedLetter, view: View): string {
  const queued = `Back in the queue: letter ${seq}, now at position ${position}`;
  if (applied_at === null) return queued;
  return `${queued}. Another copy of its command was applied ${ago(applied_at, view.now)}, so this has no effect`;
}
