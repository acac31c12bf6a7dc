/**
 * Writes damaged tombstones of a task again, from the entries of its trail that record the removals: the certificate of its shredding names every removed
 * checkpoint.
 */
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import type { RemovalReason } from "../../../protocol/retention.ts";
import type { Reader, Store, Tx } from "../../../store/store.ts";
import { decodePlace } from "../../checkpoint/checkpoint-location.ts";
import { readable } from "../../kv/codec.ts";
import { after, type TenantKeys, tenantKeys } from "../../kv/keyspace.ts";
import { readEntry } from "../../scrub/trail/entries.ts";
import { decodeTombstone, type Tombstone, writeTombstone } from "../tombstone.ts";

/** Entries of one read, and tombstones of one transaction. */
const PAGE = 200;
const READ = { label: "repair_tombstones", deadlineMs: 3_000 } as const;
const WRITE = { ...READ, priority: "batch", onUnknown: "safe" } as const;

interface RepairedTask {
  readonly store: Store;
  readonly guard: (tx: Tx) => Promise<void>;
  readonly tenant: string;
  readonly task: string;
}

/** `positions`: of the damaged tombstones. Those whose entries are damaged too stay as they are. */
export async function repairTombstones(of: RepairedTask, positions: readonly number[]): Promise<void> {
  const { store, tenant, task } = of;
  const keys = tenantKeys(tenant);
  const wanted = new Set(positions);
  const { begin, end } = keys.auditRange(task);
  for (let from = begin; ; ) {
    const range = { begin: from, end };
    const { found, next } = await store.read(READ, async (reader) => {
      const { rows, more } = await reader.getRange(range, { limit: PAGE });
      const entries = rows.map(({ value }) => readEntry(value)?.facts);
      const last = rows.at(-1);
      return {
        found: await removalsIn(reader, keys, { task, entries }),
        next: more && last !== undefined ? after(last.key) : null,
      };
    });
    await write(of, keys, new Map([...found].filter(([seq]) => wanted.has(seq))));
    if (next === null) return;
    from = next;
  }
}

async function write(
  { store, guard, task }: RepairedTask,
  keys: TenantKeys,
  found: ReadonlyMap<number, Tombstone>,
): Promise<void> {
  if (found.size === 0) return;
  await store.transact(WRITE, async (tx) => {
    await guard(tx);
    for (const [seq, tombstone] of found) {
      const value = await tx.get(keys.tombstone(task, seq));
      if (decodeTombstone(value) === null) writeTombstone(tx, keys, task, seq, tombstone);
    }
  });
}

/** The tombstones that entries state, by position. */
async function removalsIn(
  reader: Reader,
  keys: TenantKeys,
  { task, entries }: { readonly task: string; readonly entries: readonly (AuditEntry | undefined)[] },
): Promise<ReadonlyMap<number, Tombstone>> {
  const removals = entries.filter(
    (entry): entry is AuditEntry => entry?.op === "remove" || entry?.op === "import_removed",
  );
  const places = await reader.getMany(removals.map(({ checkpoint_id }) => keys.id(String(checkpoint_id))));
  const found = new Map<number, Tombstone>();
  for (const [i, entry] of removals.entries()) {
    const value = places[i];
    const place = value === undefined ? null : readable(() => decodePlace(value));
    if (place?.task === task) found.set(place.seq, tombstoneOf(entry));
  }
  return found;
}

/** An import states what the fleet had written from which the task came. */
function tombstoneOf(entry: AuditEntry): Tombstone {
  const { checkpoint_id, version, old_hash, reason, retention_policy, seq } = entry;
  const isImported = entry.op === "import_removed";
  const { at, actor, removed_at, removed_by, fallback_id } = entry;
  const by = isImported ? removed_by : (actor as { readonly id?: unknown } | null)?.id;
  return {
    id: String(checkpoint_id),
    // No checkpoint of the task is left to fall back to.
    fallback: isImported && typeof fallback_id === "string" ? fallback_id : null,
    version: Number(version),
    hash: String(old_hash),
    removedAt: String(isImported ? removed_at : at),
    reason: reason as RemovalReason,
    policy: String(retention_policy),
    by: String(by),
    auditSeq: Number(seq),
  };
}
