/**
 * Removes the oldest blocks of the access log. A signed block of the same transaction states the last removed block with its hash, so the chain
 * that is left begins where that block says, and a chain that was cut off elsewhere does not verify.
 */
import { entryHash } from "../../integrity/chain.ts";
import { ACCESS_CHAIN, ACCESS_LOSSES_KEPT_DAYS } from "../../protocol/access-log.ts";
import type { Bytes, KeyValue, Tx } from "../../store/store.ts";
import { decodeChecked, readable } from "../kv/codec.ts";
import { after, parseSeq, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { type AccessAuthor, type AccessSessionRow, appendPruned, readAccessChain } from "./append.ts";
import { blockText, readBlock } from "./block.ts";
import { clearBlockIndex } from "./task-index.ts";

const DAY_MS = 86_400_000;
/** Blocks and sessions of one transaction. */
const ROWS_MAX = 100;
/** Rows of the index of tasks that one transaction removes, and those of one block more. */
const INDEX_ROWS_MAX = 2_000;

export interface AccessPruneStep {
  readonly blocks: number;
  readonly entries: number;
  /** Whether there may be more to remove. */
  readonly more: boolean;
  /** The session after which the next step looks for ended ones; null: all were looked at. */
  readonly sessions: Bytes | null;
}

export interface PruneParts {
  readonly author: AccessAuthor;
  /** null: entries are kept for good. */
  readonly days: number | null;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
  /** As the step before has answered it; null: the first step. */
  readonly sessionsAfter: Bytes | null;
}

const NOTHING: AccessPruneStep = { blocks: 0, entries: 0, more: false, sessions: null };

export async function pruneAccess(
  tx: Tx,
  { author, days, guard, sessionsAfter }: PruneParts,
): Promise<AccessPruneStep> {
  await guard(tx);
  const keys = tenantKeys(author.tenant);
  const chain = await readAccessChain(tx, author.tenant);
  if (chain === null) return NOTHING;
  const ended = { nowMs: author.nowMs, removed: chain.start?.seq ?? 0, from: sessionsAfter };
  const sessions = await clearEndedSessions(tx, keys, ended);
  const nothing = { ...NOTHING, more: sessions !== null, sessions };
  if (days === null) return nothing;
  const beforeMs = author.nowMs - days * DAY_MS;
  const { rows, more } = await tx.snapshot.getRange(keys.accessBlocks(), { limit: ROWS_MAX });
  const kept = rows.findIndex((row) => !(Date.parse(readBlock(row).at) < beforeMs));
  const due = (kept === -1 ? rows : rows.slice(0, kept)).filter(({ key }) => parseSeq(key) < chain.seq);
  // Once a day: each removal adds a block.
  if (due.length === 0 || !(Date.parse(readBlock(due[0]!).at) < beforeMs - DAY_MS)) return nothing;
  const removed = clearBlocks(tx, keys, due);
  const { blocks, entries } = removed;
  const before = new Date(beforeMs).toISOString();
  await appendPruned(tx, author, {
    seq: parseSeq(removed.last.key),
    hash: entryHash(blockText(removed.last.value)),
    entries,
    before,
  });
  const isMore = blocks < due.length || (more && kept === -1);
  return { blocks, entries, more: isMore || sessions !== null, sessions };
}

/** Removes as many of the blocks as a transaction has room for. At least one. */
function clearBlocks(
  tx: Tx,
  keys: TenantKeys,
  due: readonly KeyValue[],
): { readonly blocks: number; readonly entries: number; readonly last: KeyValue } {
  let [blocks, entries, indexed] = [0, 0, 0];
  let last = due[0]!;
  for (const row of due) {
    if (indexed > INDEX_ROWS_MAX) break;
    const seq = parseSeq(row.key);
    const block = readBlock(row);
    indexed += clearBlockIndex(tx, keys, { seq, entries: block.entries });
    tx.clear(row.key);
    tx.clear(keys.signature(ACCESS_CHAIN, seq));
    blocks += 1;
    entries += block.entries.length;
    last = row;
  }
  return { blocks, entries, last };
}

interface EndedSessions {
  readonly nowMs: number;
  /** The last removed block. */
  readonly removed: number;
  readonly from: Bytes | null;
}

/**
 * Those of processes that ended in good order, and those whose blocks are removed. The others stay: they show where entries may be lost. So do those of
 * lost entries, for a week. There may be any number of those before the ended ones, so they are read in pages. Returns where the next page begins; null:
 * this was the last one.
 */
async function clearEndedSessions(
  tx: Tx,
  keys: TenantKeys,
  { nowMs, removed, from }: EndedSessions,
): Promise<Bytes | null> {
  const { begin, end } = keys.accessSessions();
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await tx.snapshot.getRange(range, { limit: ROWS_MAX });
  for (const { key, value } of rows) {
    // A damaged one must not keep the others.
    const row = readable(() => decodeChecked<AccessSessionRow>(value));
    if (row === null) continue;
    const { state, at, seq, lost = 0 } = row;
    const ageMs = nowMs - Date.parse(at);
    const isLossy = lost > 0 || state === "open";
    if (isLossy && ageMs < ACCESS_LOSSES_KEPT_DAYS * DAY_MS) continue;
    if (seq <= removed || (state === "closed" && ageMs > DAY_MS)) tx.clear(key);
  }
  return more ? (rows.at(-1)?.key ?? null) : null;
}
