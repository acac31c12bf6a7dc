/**
 * Findings of corrupt checkpoints: each is restored from a copy, or else marked, audited and announced once, for any number of readers that
 * meet it.
 */

import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../protocol/errors.ts";
import { idTime } from "../../protocol/ids.ts";
import type { Transactions } from "../kv/transactions.ts";
import { type Finding, quarantine } from "./quarantine.ts";
import { type CheckpointCopies, type Restored, restore } from "./restore.ts";

export interface FindingParts {
  readonly transactions: Transactions;
  readonly incarnation: number;
  readonly now: () => number;
  readonly finder: string;
  readonly onCorrupt: ((task: string, corrupt: CorruptCheckpoint) => void) | undefined;
  readonly copies: CheckpointCopies | undefined;
  readonly onRestored: ((task: string, restored: Restored) => void) | undefined;
  readonly onMissingCopy: ((task: string, checkpoint: string) => void) | undefined;
}

/** A copy follows the commit of its checkpoint after this time at most, unless the mirror is behind. */
const COPY_LAG_MS = 5_000;

/** A result with the versions that were restored for it. */
export interface Reread<T> {
  readonly value: T;
  readonly restored: readonly Restored[];
}

export class Findings {
  readonly #parts: FindingParts;

  constructor(parts: FindingParts) {
    this.#parts = parts;
  }

  /**
   * Reads, and reads once more each time that the copies restored what the read found corrupt: behind a restored checkpoint, the next read may
   * find another one.
   */
  async reread<T>(
    read: () => Promise<T>,
    corruptIn: (value: T) => { tenant: string; task: string; corrupt: readonly CorruptCheckpoint[] } | null,
  ): Promise<Reread<T>> {
    const restored: Restored[] = [];
    for (;;) {
      const value = await read();
      const found = corruptIn(value);
      const fresh = found === null ? [] : await this.keep(found.tenant, found.task, found.corrupt);
      const isKnown = (one: Restored) =>
        restored.some(
          ({ checkpoint_id, version }) => checkpoint_id === one.checkpoint_id && version === one.version,
        );
      // A version that is corrupt again after its restoration lies on a failing disk, and must not keep the caller here.
      if (fresh.length === 0 || fresh.every(isKnown)) return { value, restored };
      restored.push(...fresh.filter((one) => !isKnown(one)));
    }
  }

  /** Leaves versions alone that were marked before. Returns those that were restored and not marked. */
  async keep(tenant: string, task: string, found: readonly CorruptCheckpoint[]): Promise<Restored[]> {
    const { transactions, incarnation, now, finder, onCorrupt } = this.#parts;
    const all: Restored[] = [];
    for (const corrupt of found) {
      if (corrupt.reason === "quarantined") continue;
      const { checkpoint_id } = corrupt;
      if (checkpoint_id === null) {
        // Without an id there is no key for a mark, so every read reports it.
        onCorrupt?.(task, corrupt);
        continue;
      }
      const finding: Finding = {
        tenant,
        task,
        corrupt: { ...corrupt, checkpoint_id },
        finder,
        nowMs: now(),
        incarnation,
        traceparent: undefined,
      };
      const restored = await this.#restored(finding);
      if (restored !== null) {
        all.push(restored);
        continue;
      }
      const isNew = await transactions.transact("quarantine", (tx) => quarantine(tx, finding));
      if (isNew.value) onCorrupt?.(task, corrupt);
    }
    return all;
  }

  async #restored(finding: Finding): Promise<Restored | null> {
    const { transactions, copies, onRestored } = this.#parts;
    const { tenant, task, corrupt } = finding;
    const copy = (await copies?.read(tenant, task, corrupt.checkpoint_id)) ?? null;
    if (copy === null) return null;
    const { value } = await transactions.transact("restore", (tx) => restore(tx, finding, copy));
    if (value !== null) onRestored?.(task, value);
    return value;
  }

  /** Whether there are copies, and none of this checkpoint. */
  async lacksCopy(tenant: string, task: string, id: string): Promise<boolean> {
    const { copies, now, onMissingCopy } = this.#parts;
    const isRecent = now() - idTime(id) < COPY_LAG_MS;
    if (copies === undefined || isRecent || (await copies.read(tenant, task, id)) !== null) return false;
    onMissingCopy?.(task, id);
    return true;
  }

  /** Keeps the finding in the refusal of a command that met a corrupt checkpoint, as for a query; true: it was restored. */
  async keepOf(tenant: string, task: string, error: unknown): Promise<boolean> {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") return false;
    if (error.details.checkpoint_id === undefined) return false;
    // A fork reads the checkpoint of another task.
    const { task_id: owner = task } = error.details as { task_id?: string };
    const restored = await this.keep(tenant, owner, [error.details as unknown as CorruptCheckpoint]);
    return restored.length > 0;
  }
}
