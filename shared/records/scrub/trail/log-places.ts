/**
 * Verifies that the audit log has the entries of a chain at their places. An entry after the last place may not be in the
 * log yet; its delay is measured elsewhere.
 */
import { isSameHash, leafHash } from "../../../integrity/merkle/hashes.ts";
import { DamagedTree, leafAt, rememberedTiles, type TileSource } from "../../../integrity/merkle/tree.ts";
import type { ScrubFinding } from "../../../protocol/scrub.ts";
import { lastPlaced, tilesOf } from "../../audit-log/log-records.ts";
import { decode, readable } from "../../kv/codec.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";

interface ReadEntry {
  readonly seq: number;
  /** null: it cannot be read, which is found when the chain is verified. */
  readonly read: { readonly text: string } | null;
}

/** `entries`: those of the task, or of the tenant's chain (`task` null), from one read. */
export async function verifyLogged(
  scrub: TaskScrub,
  task: string | null,
  entries: readonly ReadEntry[],
): Promise<void> {
  const { reader, keys } = scrub;
  const kind: ScrubFinding["kind"] = task === null ? "tenant_audit" : "audit";
  const last = await lastPlaced(reader, keys, task);
  const logged = entries.filter(({ seq, read }) => seq <= last && read !== null);
  const places = await reader.getMany(logged.map(({ seq }) => keys.logPlace(task, seq)));
  // The entries of one read often share a tile.
  const tiles = rememberedTiles(tilesOf(reader, keys));
  for (const [i, { seq, read }] of logged.entries()) {
    const value = places[i];
    const index = value === undefined ? null : readable(() => decode<number>(value));
    if (typeof index !== "number" || !Number.isSafeInteger(index) || index < 0) {
      scrub.note(ofTask(kind, `entry ${seq}: its place in the audit log is lost`));
      continue;
    }
    const leaf = await leafOrNull(tiles, index);
    if (leaf === null) scrub.note(ofTask(kind, `entry ${seq}: its tile of the audit log is lost or damaged`));
    else if (!isSameHash(leaf, leafHash(read!.text)))
      scrub.note(ofTask(kind, `entry ${seq}: the audit log has another entry at its place`));
  }
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
