/** A small Merkle tree in memory (RFC 6962, section 2.1), with the path from each leaf to its root. */
import { nodeHash } from "./hashes.ts";

interface TreeWithPaths {
  readonly root: Uint8Array;
  /** For each leaf the siblings on its way to the root, from the leaf on. */
  readonly paths: readonly (readonly Uint8Array[])[];
}

/** `hashes`: those of the leaves, at least one. */
export function treeWithPaths(hashes: readonly Uint8Array[]): TreeWithPaths {
  if (hashes.length === 1) return { root: hashes[0]!, paths: [[]] };
  let width = 1;
  while (width * 2 < hashes.length) width *= 2;
  const [left, right] = [treeWithPaths(hashes.slice(0, width)), treeWithPaths(hashes.slice(width))];
  const paths = [
    ...left.paths.map((path) => [...path, right.root]),
    ...right.paths.map((path) => [...path, left.root]),
  ];
  return { root: nodeHash(left.root, right.root), paths };
}
