/**
 * Damage to stored bytes, through a separate store handle: it flips one bit of the row of a checkpoint. The damage is recorded before it is
 * made, so that the verdict can judge every later answer about the checkpoint.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";
import { decode, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Tx } from "../../../../shared/store/store.ts";
import { HistoryWriter, instant } from "../agents/history.ts";
import type { BrokenName } from "../environment/broken-builds.ts";
import type { RoundFolders } from "../environment/round-folders.ts";

const TRANSACT = { label: "damage", deadlineMs: 10_000, onUnknown: "unsafe" } as const;

export interface StoreDamager {
  /** Resolves with false when the checkpoint does not exist. */
  damage(task: string, checkpointId: string): Promise<boolean>;
  close(): Promise<void>;
}

export async function openStoreDamager(
  {
    storeUrl,
    folders,
    broken,
  }: { readonly storeUrl: string; readonly folders: RoundFolders; readonly broken: BrokenName | null },
  random: () => number,
): Promise<StoreDamager> {
  const store = await openStore(storeUrl);
  const history = new HistoryWriter(join(folders.history, "damage.jsonl"));
  return {
    async damage(task, id) {
      // One transaction: a version that a service writes meanwhile must not be replaced by the damaged row of the version before.
      const { value } = await store.transact(TRANSACT, async (tx) => {
        const row = await tx.get(tenantKeys(DEFAULT_TENANT).checkpoint(task, id));
        if (row === undefined) return false;
        const of = { task, checkpoint_id: id, version: versionOf(row) };
        await history.append({ line: "damage", at: instant(), wall: Date.now(), ...of });
        await putDamaged(tx, { task, id }, { row: damagedRow(row, { broken, random }), broken });
        return true;
      });
      return value;
    },
    async close() {
      await store.close({ drainMs: 5_000 });
      await history.close();
    },
  };
}

type Row = [version: number, hash: Uint8Array, isCompressed: boolean, chunks: number, inline: Uint8Array];
type OrderRow = [id: string, fallback: string | null, version: number, hash: Uint8Array];
const ITEM = Buffer.from("item ");

/** Of a stored checkpoint. */
export const versionOf = (row: Uint8Array): number => decode<Row>(row)[0];

/** The row with one flipped bit. With `unverified` an item and the hash change: the effect of a build that compares no hashes. */
export function damagedRow(
  row: Uint8Array,
  { broken, random }: { readonly broken: BrokenName | null; readonly random: () => number },
): Uint8Array {
  if (broken === "unverified") return forged(row);
  const damaged = Buffer.from(row);
  damaged[Math.floor(random() * row.length)]! ^= 1 << Math.floor(random() * 8);
  return damaged;
}

function forged(row: Uint8Array): Uint8Array {
  const [version, , ...rest] = decode<Row>(row);
  const body = Buffer.from(rest[2]);
  body[body.lastIndexOf(ITEM) + ITEM.length]! ^= 1;
  const hash = createHash("sha256").update(body).digest();
  return encode([version, hash, rest[0], rest[1], body, null]);
}

/** Stores a damaged row. The order of the task gets the hash of a forged one. */
export async function putDamaged(
  tx: Tx,
  { task, id }: { readonly task: string; readonly id: string },
  { row, broken }: { readonly row: Uint8Array; readonly broken: BrokenName | null },
): Promise<void> {
  const keys = tenantKeys(DEFAULT_TENANT);
  tx.set(keys.checkpoint(task, id), row);
  if (broken !== "unverified") return;
  const [, hash] = decode<Row>(row);
  const { rows } = await tx.getRange(keys.orderRange(task), { limit: 1_000 });
  for (const { key, value } of rows) {
    const [named, fallback, current] = decode<OrderRow>(value);
    if (named === id) tx.set(key, encodeChecked([named, fallback, current, hash]));
  }
}
