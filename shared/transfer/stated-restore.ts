/**
 * Whether a statement in the log explains why it does not continue a kept checkpoint: the store was restored from a backup. The
 * statement is an entry of the log itself, so it is signed, and everyone sees it.
 */
import { exactBase64, openCheckpoint } from "../integrity/merkle/note.ts";
import { isConsistent } from "../integrity/merkle/proofs.ts";
import type { AuditLogState } from "../protocol/audit-log.ts";
import { judgeReceipt, type TrustedKeys } from "./audit-receipt.ts";

export interface StatedRestore {
  readonly at: string;
  /** The principal that restored it. */
  readonly by: string;
  readonly backup_at: string;
  /** The log of the backup. */
  readonly log_size: number;
  /** The entries of the kept checkpoint that the restored store does not have. */
  readonly lost: number;
}

interface Statement extends StatedRestore {
  /** The root of the log of the backup. */
  readonly root: Uint8Array;
}

/**
 * The newest statement that explains it; null: none does. `log`: the answer with the receipts of the statements, which end with its
 * checkpoint. What the log had at the restore is verified by {@link beginsWith}.
 */
export function statedRestore(note: string, log: AuditLogState, trusted: TrustedKeys): Statement | null {
  const kept = openCheckpoint(note, trusted.kept)?.checkpoint;
  const newest = log.checkpoint === null ? null : openCheckpoint(log.checkpoint, trusted.newest);
  if (kept === undefined || newest === null || newest.checkpoint.origin !== kept.origin) return null;
  for (const value of log.restores ?? []) {
    const { problem, receipt } = judgeReceipt(value, []);
    // Receipts of another checkpoint may be of another log.
    if (problem !== null || receipt === null || receipt.checkpoint !== log.checkpoint) continue;
    const statement = statementIn(receipt.entry, kept.size);
    if (statement !== null && receipt.task_id === null && receipt.index >= statement.log_size)
      return statement;
  }
  return null;
}

function statementIn(entry: string, keptSize: number): Statement | null {
  const { action, actor, at, subject } = JSON.parse(entry) as Record<string, unknown>;
  const { backup_at, log_root, log_size } = Object(subject) as Record<string, unknown>;
  const root = typeof log_root === "string" ? exactBase64(log_root) : null;
  const { id } = Object(actor) as Record<string, unknown>;
  if (action !== "store_restore" || root === null || typeof log_size !== "number") return null;
  if (typeof at !== "string" || typeof backup_at !== "string" || typeof id !== "string") return null;
  // A checkpoint of what the backup has must be continued.
  if (!Number.isSafeInteger(log_size) || log_size < 0 || log_size >= keptSize) return null;
  return { at, by: id, backup_at, log_size, lost: keptSize - log_size, root };
}

export function restoreFacts({ at, by, backup_at, log_size, lost }: Statement): StatedRestore {
  return { at, by, backup_at, log_size, lost };
}

/** `log`: the answer with the proof since the size of the statement. */
export function beginsWith(
  { log_size: size, root }: Statement,
  log: AuditLogState,
  trusted: TrustedKeys,
): boolean {
  const newest =
    log.checkpoint === null ? undefined : openCheckpoint(log.checkpoint, trusted.newest)?.checkpoint;
  const hashes = (log.consistency ?? []).map(exactBase64);
  if (newest === undefined || log.consistency == null || !hashes.every((hash) => hash !== null)) return false;
  return newest.size === log.size && isConsistent({ size, root }, newest, hashes);
}
