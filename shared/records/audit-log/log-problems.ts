/** Compares entries with the audit log. An entry after the last place of its chain may not be in the log yet. */
import { isSameHash, leafHash } from "../../integrity/merkle/hashes.ts";
import { DamagedTree, leafAt, rememberedTiles, type TileSource } from "../../integrity/merkle/tree.ts";
import type { Reader } from "../../store/store.ts";
import { decode, readable } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { lastPlaced, tilesOf } from "./log-records.ts";

export type LogProblem = "place" | "tile" | "other";

interface ReadEntry {
  readonly seq: number;
  /** null: it cannot be read, which is found when the chain is verified. */
  readonly read: { readonly text: string } | null;
}

/** By the numbers of the entries. `entries`: those of the task, or of the tenant's chain (`task` null), from one read. */
export async function logProblems(
  reader: Reader,
  keys: TenantKeys,
  task: string | null,
  entries: readonly ReadEntry[],
): Promise<ReadonlyMap<number, LogProblem>> {
  const last = await lastPlaced(reader, keys, task);
  const logged = entries.filter(({ seq, read }) => seq <= last && read !== null);
  const places = await reader.getMany(logged.map(({ seq }) => keys.logPlace(task, seq)));
  // The entries of one read often share a tile.
  const tiles = rememberedTiles(tilesOf(reader, keys));
  const problems = new Map<number, LogProblem>();
  for (const [i, { seq, read }] of logged.entries()) {
    const value = places[i];
    const index = value === undefined ? null : readable(() => decode<number>(value));
    if (typeof index !== "number" || !Number.isSafeInteger(index) || index < 0) {
      problems.set(seq, "place");
      continue;
    }
    const leaf = await leafOrNull(tiles, index);
    if (leaf === null) problems.set(seq, "tile");
    else if (!isSameHash(leaf, leafHash(read!.text))) problems.set(seq, "other");
  }
  return problems;
}

/** null: its tile is lost or damaged. Any other failure is not one of the tile. */
async function leafOrNull(tiles: TileSource, index: number): Promise<Uint8Array | null> {
  try {
    return await leafAt(tiles, index);
  } catch (error) {
    if (error instanceof DamagedTree) return null;
    throw error;
  }
}
