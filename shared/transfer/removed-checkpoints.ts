/**
 * The checkpoints of one exported task that retention removed. Their content is gone, and what an import needs of each stands in the trail:
 * its position, what its versions said about the task, and its removal.
 */
import type { AuditEntry } from "../lifecycle/replay.ts";
import { PHASES } from "../protocol/checkpoint.ts";
import type { ImportRemovedCommand } from "../protocol/commands.ts";
import type { ExportLine } from "../protocol/export-lines.ts";
import { REMOVAL_REASONS } from "../protocol/retention.ts";

export type ExportedRemoval = ImportRemovedCommand["removed"];

type Form = "agent_id" | "agent_type" | "phase" | "items";
type Made = { readonly seq: number; readonly version: number; readonly hash: string } & {
  readonly [Name in Form]?: ExportedRemoval[Name];
};

interface Gone {
  readonly made: Made;
  /** The entry of the removal, which a line before it names. */
  readonly entry: number;
  readonly fallback: string | null;
  readonly removed: ExportedRemoval | null;
}

export class RemovedCheckpoints {
  /** The newest version of each checkpoint that retention removed, and of the last one that the trail made. */
  readonly #gone = new Map<string, Gone>();
  #last: { readonly id: string; readonly made: Made } | null = null;
  #created = 0;
  #isWhole = true;

  /** Of all that the lines so far have, in the order of the task. */
  get removed(): readonly ExportedRemoval[] {
    const found = [...this.#gone.values()].flatMap(({ removed }) => removed ?? []);
    return found.sort((a, b) => a.seq - b.seq);
  }

  /** Whether every version that has no content belongs to a checkpoint whose removal the trail records. */
  get isWhole(): boolean {
    return this.#isWhole && [...this.#gone.values()].every(({ removed }) => removed !== null);
  }

  /** The lines of a task, in their order, each after its verification. */
  add(line: ExportLine): void {
    if (line.kind === "audit") this.#addEntry(line.seq, JSON.parse(line.entry) as AuditEntry);
    // Retention removed it during the export: the file has only a part of its versions.
    if (line.kind === "checkpoint" && this.#last !== null && this.#gone.has(this.#last.id))
      this.#isWhole = false;
    if (line.kind !== "lost") return;
    if (line.removed_entry === undefined || this.#last?.id !== line.checkpoint_id) this.#isWhole = false;
    else {
      const { made } = this.#last;
      const { removed_entry: entry, fallback_id: fallback = null } = line;
      if (made.version > 1 && !this.#gone.has(line.checkpoint_id)) this.#isWhole = false;
      this.#gone.set(line.checkpoint_id, { made, entry, fallback, removed: null });
    }
  }

  #addEntry(seq: number, entry: AuditEntry): void {
    const { op, checkpoint_id: id, version, new_hash: hash } = entry;
    if (typeof id !== "string" || typeof version !== "number") return;
    if (op === "import_removed") {
      this.#created += 1;
      const made = { ...formOf(entry), seq: this.#created, version, hash: String(entry.old_hash) };
      const { removed_at, removed_by, fallback_id } = entry;
      const fallback = typeof fallback_id === "string" ? fallback_id : null;
      const removed = removalOf(id, made, fallback, { entry, at: removed_at, by: removed_by });
      this.#gone.set(id, { made, entry: seq, fallback, removed });
      return;
    }
    const gone = this.#gone.get(id);
    if (op === "remove" && gone?.entry === seq) {
      const { made, fallback } = gone;
      const isNewest = made.version === version && made.hash === entry.old_hash;
      const { at, actor } = entry;
      const by = (actor as { readonly id?: unknown } | null)?.id;
      this.#gone.set(id, {
        ...gone,
        removed: isNewest ? removalOf(id, made, fallback, { entry, at, by }) : null,
      });
    }
    if (typeof hash !== "string") return;
    if (version === 1) this.#created += 1;
    const before: Pick<Made, "seq" | "items"> = gone?.made ?? { seq: this.#created };
    const form = formOf(entry);
    // The task counts the most items of any version.
    const most = form.items !== undefined && { items: Math.max(form.items, before.items ?? 0) };
    this.#last = { id, made: { ...before, ...form, ...most, version, hash } };
  }
}

/** What an entry says about the version that it made. An entry of an earlier version may lack some of it. */
function formOf({ op, actor, phase, agent_type, author, items }: AuditEntry): Partial<Made> {
  const creator = op === "create" ? (actor as { readonly id?: unknown } | null)?.id : author;
  return {
    ...(typeof creator === "string" && { agent_id: creator }),
    ...(typeof agent_type === "string" && { agent_type }),
    ...(isOneOf(PHASES, phase) && { phase }),
    ...(typeof items === "number" && { items }),
  };
}

/** null: the trail does not say all of it. */
function removalOf(
  id: string,
  { seq, version, hash, agent_id, agent_type, phase, items }: Made,
  fallback: string | null,
  { entry, at, by }: { readonly entry: AuditEntry; readonly at: unknown; readonly by: unknown },
): ExportedRemoval | null {
  const { reason, retention_policy } = entry;
  if (agent_id === undefined || agent_type === undefined || phase === undefined || items === undefined)
    return null;
  if (!isOneOf(REMOVAL_REASONS, reason) || typeof retention_policy !== "string") return null;
  if (typeof at !== "string" || typeof by !== "string") return null;
  return {
    ...{ checkpoint_id: id, seq, version, hash, fallback_id: fallback, reason, retention_policy },
    ...{ removed_at: at, removed_by: by, phase, agent_id, agent_type, items },
  };
}

function isOneOf<T extends string>(values: readonly T[], value: unknown): value is T {
  return (values as readonly unknown[]).includes(value);
}
