/**
 * The continuation prompt that a checkpoint in phase `handoff` gets if its agent wrote none: a short summary of the work, made before the
 * checkpoint is sealed (seed 000, FR-004 step 2). The offer of the handoff has the whole prompt.
 */
import type { CheckpointInput } from "../protocol/checkpoint.ts";

type Work = CheckpointInput["execution_state"];

/** The newest completed items, and the first of the other lists. */
const ITEMS = 10;
const CHARS = 200;

export function handoverSummary(work: Work): string {
  const completed = itemsOf(work.completed_items);
  const pending = itemsOf(work.pending_items);
  const blocked = itemsOf(work.blocked_items);
  const next = [work.resume_pointer?.next_action, work.current_step?.description, pending[0]].find(
    (text) => typeof text === "string" && text !== "",
  );
  const parts: [heading: string, lines: string[], total: number][] = [
    ["What was accomplished", completed.slice(-ITEMS), completed.length],
    ["What remains", pending.slice(0, ITEMS), pending.length],
    ["Current blockers", blocked.slice(0, ITEMS), blocked.length],
    ["Recommended next step", next === undefined ? [] : [next], next === undefined ? 0 : 1],
  ];
  return parts
    .map(([heading, lines, total]) => {
      const more = total > lines.length ? [`- and ${total - lines.length} more in the checkpoint`] : [];
      const listed = lines.map((line) => `- ${line.slice(0, CHARS)}`);
      return [`${heading}:`, ...(total === 0 ? ["- nothing is recorded"] : listed), ...more].join("\n");
    })
    .join("\n\n");
}

/** The caller's input is not validated yet, so its lists may be anything. */
function itemsOf(list: unknown): string[] {
  return Array.isArray(list) ? list.map(itemText) : [];
}

function itemText(item: unknown): string {
  if (typeof item !== "object" || item === null) return String(item);
  const { title, blocker } = item as { title?: unknown; blocker?: unknown };
  return typeof blocker === "string" ? `${title} (blocked by: ${blocker})` : String(title);
}
