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
      const key = tenantKeys(DEFAULT_TENANT).checkpoint(task, id);
      // One transaction: a version that a service writes meanwhile must not be replaced by the damaged row of the version before.
      const { value } = await store.transact(TRANSACT, async (tx) => {
        const row = await tx.get(key);
        if (row === undefined) return false;
        const [version] = decode<Row>(row);
        const line = {
          line: "damage",
          at: instant(),
          wall: Date.now(),
          task,
          checkpoint_id: id,
          version,
        } as const;
        await history.append(line);
        if (broken === "unverified") await forge(tx, { task, id, row });
        else tx.set(key, flipBit(row, random));
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

function flipBit(row: Uint8Array, random: () => number): Uint8Array {
  const damaged = Buffer.from(row);
  damaged[Math.floor(random() * row.length)]! ^= 1 << Math.floor(random() * 8);
  return damaged;
}

/** Changes an item of a checkpoint and all its hashes: the effect of a build that compares no hashes. */
async function forge(
  tx: Tx,
  { task, id, row }: { readonly task: string; readonly id: string; readonly row: Uint8Array },
): Promise<void> {
  const keys = tenantKeys(DEFAULT_TENANT);
  const [version, , ...rest] = decode<Row>(row);
  const body = Buffer.from(rest[2]);
  body[body.lastIndexOf(ITEM) + ITEM.length]! ^= 1;
  const hash = createHash("sha256").update(body).digest();
  tx.set(keys.checkpoint(task, id), encode([version, hash, rest[0], rest[1], body, null]));
  const { rows } = await tx.getRange(keys.orderRange(task), { limit: 1_000 });
  for (const { key, value } of rows) {
    const [named, fallback, current] = decode<OrderRow>(value);
    if (named === id) tx.set(key, encodeChecked([named, fallback, current, hash]));
  }
}
