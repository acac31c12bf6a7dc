/**
 * Appends blocks of entries to the access log of a tenant. A block has the hash of the block before it, and the signature of its commit. One block
 * for many entries: a row, a hash and a signature for each read would cost more than the read.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { CHAIN_START, entryHash } from "../../integrity/chain.ts";
import { ACCESS_CHAIN, type AccessEntry, type AccessSession } from "../../protocol/access-log.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader, Tx } from "../../store/store.ts";
import type { ChainHead } from "../audit/audit.ts";
import { appendTenantAudit } from "../audit/tenant-audit.ts";
import { decodeChecked, encode, encodeChecked } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { noteEntry, noteTime, signedBy } from "../signing/commit-signing.ts";
import { indexBlock } from "./task-index.ts";

/** The version of the layout of blocks. */
const ACCESS_VERSION = 1;

/** What one process writes at once for one tenant. A repeated batch has no effect: the row of the session has its number. */
export interface AccessBatch {
  readonly session: string;
  /** The number of the batch in its session, from 1. */
  readonly n: number;
  readonly state: AccessSession["state"];
  readonly entries: readonly AccessEntry[];
  /** Entries that the process could not hold since the batch before. */
  readonly lost: number;
}

/** What retention has removed up to a block, as a later block states it. */
export interface PrunedAccess extends ChainHead {
  readonly entries: number;
  /** Blocks of an earlier time were removed. */
  readonly before: string;
}

interface ChainState extends ChainHead {
  /** The time of the newest block. Absent: an earlier version wrote it. */
  readonly at?: string;
  /** When the chain of the tenant last stated the newest block, in milliseconds since the epoch. */
  readonly statedMs: number;
  /** The last block that was removed. null: none was. */
  readonly start: ChainHead | null;
  /** The first block that the index of tasks has. Absent: it has none, of an earlier version. */
  readonly indexed?: number;
}

export interface AccessSessionRow {
  readonly n: number;
  readonly state: AccessSession["state"];
  readonly at: string;
  readonly seq: number;
  /** Of all its batches. Absent: of an earlier version. */
  readonly lost?: number;
}

export interface AccessAuthor {
  readonly tenant: string;
  /** The service that writes. */
  readonly service: string;
  readonly nowMs: number;
}

export async function appendAccess(tx: Tx, author: AccessAuthor, batch: AccessBatch): Promise<void> {
  const { tenant, nowMs } = author;
  const keys = tenantKeys(tenant);
  const key = keys.accessSession(batch.session);
  const known = await tx.get(key);
  const before = known === undefined ? null : decodeChecked<AccessSessionRow>(known);
  // An earlier attempt was committed.
  if (before !== null && before.n >= batch.n) return;
  const { session: id, n, state } = batch;
  const parts = partsOf(batch.entries);
  const blocks = parts.map((entries, i) => {
    const isLast = i === parts.length - 1;
    return {
      entries,
      ...(i === 0 && batch.lost > 0 && { lost: batch.lost }),
      session: { id, n, state: isLast ? state : ("open" as const) },
    };
  });
  const head = await appendBlocks(tx, author, blocks);
  const lost = (before?.lost ?? 0) + batch.lost;
  const row: AccessSessionRow = { n, state, at: new Date(nowMs).toISOString(), seq: head.seq, lost };
  tx.set(key, encodeChecked(row));
}

/** States in a block that retention has removed the blocks before it. */
export async function appendPruned(tx: Tx, author: AccessAuthor, pruned: PrunedAccess): Promise<void> {
  await appendBlocks(tx, author, [{ entries: [], pruned }], { seq: pruned.seq, hash: pruned.hash });
}

type BlockFacts = Readonly<Record<string, unknown>> & { readonly entries: readonly AccessEntry[] };

/**
 * Throws CORRUPT, and writes nothing, if the record of the chain is damaged or behind its blocks: otherwise the next block would hide the damage.
 */
async function appendBlocks(
  tx: Tx,
  { tenant, service, nowMs }: AccessAuthor,
  blocks: readonly BlockFacts[],
  start?: ChainHead,
): Promise<ChainHead> {
  const keys = tenantKeys(tenant);
  const before = await readAccessChain(tx, tenant);
  if ((await tx.get(keys.accessBlock((before?.seq ?? 0) + 1))) !== undefined)
    throw new FleetError("CORRUPT", "the access log is longer than its record says", { details: { tenant } });
  const at = new Date(nowMs).toISOString();
  if (before?.at !== undefined) noteTime(tx, before.at);
  let head: ChainHead = before ?? { seq: 0, hash: CHAIN_START };
  for (const facts of blocks) {
    const seq: number = head.seq + 1;
    const members = { ...facts, at, prev: head.hash, seq, ...signedBy(tx), tenant, v: ACCESS_VERSION };
    const text = canonicalText(members);
    const hash = entryHash(text);
    tx.set(keys.accessBlock(seq), encode(text));
    indexBlock(tx, keys, { seq, entries: facts.entries });
    noteEntry(tx, { tenant, task: ACCESS_CHAIN, seq, hash, at, checkpoint: null });
    head = { seq, hash };
  }
  const statedMs = await state(tx, { tenant, service, nowMs }, before?.statedMs, head);
  const indexed = before === null ? 1 : (before.indexed ?? before.seq + 1);
  const chain: ChainState = { ...head, at, statedMs, start: start ?? before?.start ?? null, indexed };
  tx.set(keys.accessChain(), encodeChecked(chain));
  return head;
}

/**
 * The chain of the tenant names the newest block from time to time, and so does the audit log with its anchors. So also the holder of the store
 * and of all keys cannot change what came before. Returns when it was last named.
 */
async function state(
  tx: Tx,
  { tenant, service, nowMs }: AccessAuthor,
  statedMs: number | undefined,
  { seq, hash }: ChainHead,
): Promise<number> {
  if (statedMs === undefined) return nowMs;
  // Also after a time in the future, by a clock that ran ahead.
  if (Math.abs(nowMs - statedMs) < LIMITS.access_log_statement_ms) return statedMs;
  const actor = { id: service, type: "service" } as const;
  const at = new Date(nowMs).toISOString();
  try {
    await appendTenantAudit(tx, tenant, [{ action: "access_log", actor, at, subject: { block: seq, hash } }]);
  } catch (error) {
    // A damaged chain of the tenant is found by the scrub. It must not stop the reads that have to be logged.
    if (!(error instanceof FleetError) || error.code !== "CORRUPT") throw error;
  }
  return nowMs;
}

/** null: the tenant has no access log. Throws for a damaged record. */
export async function readAccessChain(reader: Reader, tenant: string): Promise<ChainState | null> {
  const value = await reader.get(tenantKeys(tenant).accessChain());
  return value === undefined ? null : decodeChecked<ChainState>(value);
}

/** The entries in parts that fit into one block each; at least one part. */
function partsOf(entries: readonly AccessEntry[]): readonly (readonly AccessEntry[])[] {
  const parts: AccessEntry[][] = [[]];
  let bytes = 0;
  for (const entry of entries) {
    const size = Buffer.byteLength(JSON.stringify(entry)) + 1;
    if (bytes + size > LIMITS.access_log_block_bytes_max && parts.at(-1)!.length > 0) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(entry);
    bytes += size;
  }
  return parts;
}
