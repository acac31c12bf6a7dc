/** A small Merkle tree in memory (RFC 6962, section 2.1), with the path from each leaf to its root. */
import { nodeHash } from "./hashes.ts";

interface TreeWithPaths {
  readonly root: Uint8Array;
  /** For each leaf the siblings on its way to the root, from the leaf on. */
  readonly paths: readonly (readonly Uint8Array[])[];
}

/** `hashes`: those of the leaves, at least one. */
export function treeWithPaths(hashes: readonly Uint8Array[]): TreeWithPaths {
  const levels = [hashes];
  for (let level = hashes; level.length > 1; ) {
    level = levelAbove(level);
    levels.push(level);
  }
  const paths = hashes.map((_, leaf) => pathFrom(levels, leaf));
  return { root: levels.at(-1)![0]!, paths };
}

/** A node without a sibling is in the level above as it is, which gives the tree of the RFC. */
function levelAbove(level: readonly Uint8Array[]): Uint8Array[] {
  const above: Uint8Array[] = [];
  for (let i = 0; i < level.length; i += 2) {
    const right = level[i + 1];
    above.push(right === undefined ? level[i]! : nodeHash(level[i]!, right));
  }
  return above;
}

function pathFrom(levels: readonly (readonly Uint8Array[])[], leaf: number): Uint8Array[] {
  const path: Uint8Array[] = [];
  let i = leaf;
  for (const level of levels) {
    const sibling = level[i % 2 === 0 ? i + 1 : i - 1];
    if (sibling !== undefined) path.push(sibling);
    i = Math.floor(i / 2);
  }
  return path;
}
