/**
 * Removes the oldest blocks of the access log. A signed block of the same transaction states the last removed block with its hash, so the chain
 * that is left begins where that block says, and a chain that was cut off elsewhere does not verify.
 */
import { entryHash } from "../../integrity/chain.ts";
import { ACCESS_CHAIN } from "../../protocol/access-log.ts";
import type { Tx } from "../../store/store.ts";
import { decodeChecked } from "../kv/codec.ts";
import { parseSeq, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type AccessAuthor, type AccessSessionRow, appendPruned, readAccessChain } from "./append.ts";
import { blockText, readBlock } from "./block.ts";

const DAY_MS = 86_400_000;
/** Blocks and sessions of one transaction. */
const ROWS_MAX = 100;

export interface AccessPruneStep {
  readonly blocks: number;
  readonly entries: number;
  /** Whether there may be more to remove. */
  readonly more: boolean;
}

interface PruneParts {
  readonly author: AccessAuthor;
  /** null: entries are kept for good. */
  readonly days: number | null;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
}

const NOTHING: AccessPruneStep = { blocks: 0, entries: 0, more: false };

export async function pruneAccess(tx: Tx, { author, days, guard }: PruneParts): Promise<AccessPruneStep> {
  await guard(tx);
  const keys = tenantKeys(author.tenant);
  const chain = await readAccessChain(tx, author.tenant);
  if (chain === null) return NOTHING;
  await clearEndedSessions(tx, keys, { endedMs: author.nowMs - DAY_MS, removed: chain.start?.seq ?? 0 });
  if (days === null) return NOTHING;
  const beforeMs = author.nowMs - days * DAY_MS;
  const { rows, more } = await tx.snapshot.getRange(keys.accessBlocks(), { limit: ROWS_MAX });
  const kept = rows.findIndex((row) => !(Date.parse(readBlock(row).at) < beforeMs));
  const due = (kept === -1 ? rows : rows.slice(0, kept)).filter(({ key }) => parseSeq(key) < chain.seq);
  const last = due.at(-1);
  // Once a day: each removal adds a block.
  if (last === undefined || !(Date.parse(readBlock(due[0]!).at) < beforeMs - DAY_MS)) return NOTHING;
  let entries = 0;
  for (const row of due) {
    entries += readBlock(row).entries.length;
    tx.clear(row.key);
    tx.clear(keys.signature(ACCESS_CHAIN, parseSeq(row.key)));
  }
  const before = new Date(beforeMs).toISOString();
  await appendPruned(tx, author, {
    seq: parseSeq(last.key),
    hash: entryHash(blockText(last.value)),
    entries,
    before,
  });
  return { blocks: due.length, entries, more: more && kept === -1 };
}

/**
 * Those of processes that ended in good order, and those whose blocks are removed. The others stay: they show where entries may be lost.
 */
async function clearEndedSessions(
  tx: Tx,
  keys: TenantKeys,
  { endedMs, removed }: { readonly endedMs: number; readonly removed: number },
): Promise<void> {
  const { rows } = await tx.snapshot.getRange(keys.accessSessions(), { limit: ROWS_MAX });
  for (const { key, value } of rows) {
    const { state, at, seq } = decodeChecked<AccessSessionRow>(value);
    if (seq <= removed || (state === "closed" && Date.parse(at) < endedMs)) tx.clear(key);
  }
}
