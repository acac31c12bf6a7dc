/**
 * Findings of corrupt checkpoints: each is marked, audited and announced once, for any number of readers that
 * meet it.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { CorruptCheckpoint } from "../../protocol/queries.ts";
import type { Transactions } from "../kv/transactions.ts";
import { type Finding, quarantine } from "./quarantine.ts";

export interface FindingParts {
  readonly transactions: Transactions;
  readonly incarnation: number;
  readonly now: () => number;
  readonly finder: string;
  readonly onCorrupt: ((task: string, corrupt: CorruptCheckpoint) => void) | undefined;
}

export class Findings {
  readonly #parts: FindingParts;

  constructor(parts: FindingParts) {
    this.#parts = parts;
  }

  /** Leaves versions alone that were marked before. */
  async keep(tenant: string, task: string, found: readonly CorruptCheckpoint[]): Promise<void> {
    const { transactions, incarnation, now, finder, onCorrupt } = this.#parts;
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
      const isNew = await transactions.transact("quarantine", (tx) => quarantine(tx, finding));
      if (isNew.value) onCorrupt?.(task, corrupt);
    }
  }

  /** Keeps the finding in the refusal of a command that met a corrupt checkpoint, as for a query. */
  async keepOf(tenant: string, task: string, error: unknown): Promise<void> {
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") return;
    if (error.details.checkpoint_id === undefined) return;
    // A fork reads the checkpoint of another task.
    const { task_id: owner = task } = error.details as { task_id?: string };
    await this.keep(tenant, owner, [error.details as unknown as CorruptCheckpoint]);
  }
}
