/**
 * The parents of each checkpoint as its agent sent it: those that it names, or the previous checkpoint of its task. The first checkpoint of the
 * agent that accepted a handoff has that of the handoff instead.
 */
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import type { SentLine } from "../agents/history.ts";
import type { Entry, FinalTask } from "./evidence.ts";

export interface Lineage {
  readonly id: string;
  /** The number of the entry that created the checkpoint. */
  readonly seq: number;
  readonly parents: readonly string[];
  /** The checkpoint from which a recovery continues if this one is damaged. */
  readonly fallback: string | null;
  /** The number of different completed items; null if the sent command was not recorded. */
  readonly items: number | null;
}

/** The ids of the checkpoints that are not as they were written. */
export interface Losses {
  readonly damaged: ReadonlySet<string>;
  readonly removed: ReadonlySet<string>;
}

interface SentCreate {
  readonly checkpoint?: CheckpointInput;
  readonly fence?: number;
}

/** Follows the entries of a task, and knows the open handoff that was accepted. */
class AcceptedHandoff {
  readonly #points = new Map<string, string>();
  #accepted: { readonly point: string | null; readonly fence: number } | null = null;

  add({ handoff_id: id, handoff_to: to, from_checkpoint: point, fence }: Entry): void {
    if (id === undefined) return;
    if (point !== undefined) this.#points.set(id, point);
    if (to !== undefined)
      this.#accepted = to === "accepted" ? { point: this.#points.get(id) ?? null, fence } : null;
  }

  /** The checkpoint of the handoff if a command with this fence is one of the agent that accepted it; otherwise null. */
  pointFor(fence: number | undefined): string | null {
    return this.#accepted?.fence === fence ? (this.#accepted?.point ?? null) : null;
  }
}

/** The checkpoints of a task in their order. */
export function lineagesOf({ entries }: FinalTask, sent: ReadonlyMap<string, SentLine>): Lineage[] {
  const found: Lineage[] = [];
  const accepted = new AcceptedHandoff();
  for (const entry of entries) {
    accepted.add(entry);
    const { op, seq, checkpoint_id: id, command_id } = entry;
    if (op !== "create" || id === null) continue;
    const body = sent.get(command_id ?? "")?.body;
    const command = body === undefined ? undefined : (JSON.parse(body) as SentCreate);
    const checkpoint = command?.checkpoint;
    const fence = command === undefined ? entry.fence : command.fence;
    const before = accepted.pointFor(fence) ?? found.at(-1)?.id ?? null;
    const parents = checkpoint?.metadata.parent_ids ?? (before === null ? [] : [before]);
    const fallback = checkpoint?.recovery?.last_successful_state ?? before;
    const items = checkpoint === undefined ? null : itemsOf(checkpoint);
    found.push({ id, seq, parents, fallback, items });
  }
  return found;
}

/**
 * The ids of the ancestors that a recovery from a checkpoint verifies. A checkpoint was sound with all its ancestors when it was removed, so
 * its tombstone stands for them.
 */
export function ancestorsOf(
  { parents }: Lineage,
  lineages: ReadonlyMap<string, Lineage>,
  removed: ReadonlySet<string>,
): Set<string> {
  const found = new Set(parents.filter((id) => !removed.has(id)));
  // A set also visits the members that are added during the loop.
  for (const id of found) {
    for (const parent of lineages.get(id)?.parents ?? []) if (!removed.has(parent)) found.add(parent);
  }
  return found;
}

/** Whether a checkpoint or an ancestor of it is damaged. */
export function isTainted(
  id: string,
  lineages: ReadonlyMap<string, Lineage>,
  { damaged, removed }: Losses,
): boolean {
  const own = lineages.get(id);
  const ancestors = own === undefined ? [] : ancestorsOf(own, lineages, removed);
  return [id, ...ancestors].some((one) => damaged.has(one));
}

function itemsOf({ execution_state }: CheckpointInput): number {
  const items = execution_state.completed_items ?? [];
  return new Set(items.map((item) => (typeof item === "string" ? item : (item.id ?? item.title)))).size;
}
