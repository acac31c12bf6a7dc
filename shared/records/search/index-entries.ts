/**
 * Index entries: a pure function from a checkpoint version to keys. Each checkpoint has one entry in each
 * index, ordered by the time in its id, which never changes. The value of an entry covers all fields that a
 * search filters by, so that a search opens only checkpoints that match.
 *
 * The entry in the time index also records the version that is indexed now. On a change, the entries of that
 * version that the new one does not have are cleared.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { idTime } from "../../protocol/ids.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { indexKeyEnd } from "../kv/index-keys.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

/** The indexed fields of a checkpoint. */
export interface Cover {
  readonly task: string;
  readonly agent: string;
  readonly type: string;
  readonly phase: string;
  readonly status: string;
  readonly trigger: string;
  readonly version: number;
}

type CoverRow = [
  task: string,
  agent: string,
  type: string,
  phase: string,
  status: string,
  trigger: string,
  version: number,
];

/** The names of the indexes. `time` holds every checkpoint. */
export const INDEXES = ["time", "agent", "type", "phase", "status", "trigger"] as const;
export type IndexName = (typeof INDEXES)[number];

/** The only value in the time index. */
export const EVERY = "";

export function coverOf({ metadata, execution_state }: Checkpoint): Cover {
  return {
    task: metadata.task_id,
    agent: metadata.agent_id,
    type: metadata.agent_type,
    phase: execution_state.phase,
    status: metadata.status,
    trigger: metadata.trigger.reason,
    version: metadata.version,
  };
}

export function encodeCover(cover: Cover): Bytes {
  const { task, agent, type, phase, status, trigger, version } = cover;
  return encode([task, agent, type, phase, status, trigger, version] satisfies CoverRow);
}

export function decodeCover(value: Bytes): Cover {
  const [task, agent, type, phase, status, trigger, version] = decode<CoverRow>(value);
  return { task, agent, type, phase, status, trigger, version };
}

/** The key of the entry that records the indexed version of a checkpoint. */
export function coverKey(keys: TenantKeys, id: string): Bytes {
  return keys.index("time", EVERY, idTime(id), id);
}

/** The indexed fields of each checkpoint; null for a checkpoint that is not indexed. */
export async function readCovers(
  reader: Reader,
  keys: TenantKeys,
  ids: readonly string[],
): Promise<(Cover | null)[]> {
  const values = await reader.getMany(ids.map((id) => coverKey(keys, id)));
  return values.map((value) => (value === undefined ? null : decodeCover(value)));
}

function valueIn(name: IndexName, cover: Cover): string {
  return name === "time" ? EVERY : cover[name];
}

/** The keys of all entries of an indexed checkpoint. */
export function entryKeys(keys: TenantKeys, id: string, cover: Cover): Bytes[] {
  const end = indexKeyEnd(idTime(id), id);
  return INDEXES.map((name) => keys.indexEntry(name, valueIn(name, cover), end));
}

/** An indexed version, with its value in the index. */
export interface Indexed {
  readonly cover: Cover;
  readonly value: Bytes;
}

/** Replaces the entries of the indexed version (null: there is none) with those of `now`. */
export function writeEntries(
  tx: Tx,
  keys: TenantKeys,
  id: string,
  before: Cover | null,
  { cover: now, value }: Indexed,
): void {
  const end = indexKeyEnd(idTime(id), id);
  for (const name of INDEXES) {
    const key = valueIn(name, now);
    if (before !== null && valueIn(name, before) !== key) {
      tx.clear(keys.indexEntry(name, valueIn(name, before), end));
    }
    tx.set(keys.indexEntry(name, key, end), value);
  }
}
