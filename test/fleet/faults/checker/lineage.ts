/** What each checkpoint goes back to, as its agent sent it: the parents that it names, or else the one before it in its task. */
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import type { SentLine } from "../agents/history.ts";
import type { TaskTruth } from "./evidence.ts";

export interface Lineage {
  readonly id: string;
  /** Of the entry that created it. */
  readonly seq: number;
  /** All of them. */
  readonly ancestors: ReadonlySet<string>;
  /** Different items that it says are done; null: it was not recorded as it was sent. */
  readonly items: number | null;
}

interface SentCreate {
  readonly checkpoint?: CheckpointInput;
}

/** The checkpoints of a task in its order. */
export function lineagesOf({ entries }: TaskTruth, sent: ReadonlyMap<string, SentLine>): Lineage[] {
  const found: Lineage[] = [];
  const byId = new Map<string, Lineage>();
  for (const { op, seq, checkpoint_id: id, command_id } of entries) {
    if (op !== "create" || id === null) continue;
    const body = sent.get(command_id ?? "")?.body;
    const checkpoint = body === undefined ? undefined : (JSON.parse(body) as SentCreate).checkpoint;
    const before = found.at(-1);
    const parents = checkpoint?.metadata.parent_ids ?? (before === undefined ? [] : [before.id]);
    const ancestors = new Set(parents.flatMap((one) => [one, ...(byId.get(one)?.ancestors ?? [])]));
    const lineage = { id, seq, ancestors, items: checkpoint === undefined ? null : itemsOf(checkpoint) };
    found.push(lineage);
    byId.set(id, lineage);
  }
  return found;
}

function itemsOf({ execution_state }: CheckpointInput): number {
  const items = execution_state.completed_items ?? [];
  return new Set(items.map((item) => (typeof item === "string" ? item : (item.id ?? item.title)))).size;
}
