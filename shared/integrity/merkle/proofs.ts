/**
 * The verification of Merkle proofs (RFC 9162, sections 2.1.3.2 and 2.1.4.2): that a leaf is in a tree, and that a
 * tree begins with all leaves of a smaller one. Proofs come from outside, so each false one is an answer, not an error.
 */
import { isSameHash, nodeHash, TREE_HASH_BYTES } from "./hashes.ts";

export interface TreeRoot {
  readonly size: number;
  readonly root: Uint8Array;
}

const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;
const isOdd = (value: number): boolean => value % 2 === 1;
const half = (value: number): number => Math.floor(value / 2);
const areHashes = (proof: readonly Uint8Array[]): boolean =>
  proof.every(({ length }) => length === TREE_HASH_BYTES);

/** A leaf by its number, which counts from 0, and its hash. */
interface Leaf {
  readonly index: number;
  readonly hash: Uint8Array;
}

/** Whether the leaf with this hash is the one with this number. */
export function isIncluded(leaf: Leaf, { size, root }: TreeRoot, proof: readonly Uint8Array[]): boolean {
  const reached = rootAbove(leaf, size, proof);
  return reached !== null && isSameHash(reached, root);
}

/** The root that a tree of this size has if the proof is that of the leaf. null: no such tree has a proof of this form. */
export function rootAbove(
  { index, hash }: Leaf,
  size: number,
  proof: readonly Uint8Array[],
): Uint8Array | null {
  if (!isCount(index) || !isCount(size) || index >= size || !areHashes(proof)) return null;
  let [node, last] = [index, size - 1];
  let reached = hash;
  for (const sibling of proof) {
    if (last === 0) return null;
    if (isOdd(node) || node === last) {
      reached = nodeHash(sibling, reached);
      while (!isOdd(node) && node !== 0) [node, last] = [half(node), half(last)];
    } else reached = nodeHash(reached, sibling);
    [node, last] = [half(node), half(last)];
  }
  return last === 0 ? reached : null;
}

/** Whether the newer tree begins with the leaves of the older one. Every tree begins with the empty one. */
export function isConsistent(older: TreeRoot, newer: TreeRoot, proof: readonly Uint8Array[]): boolean {
  if (!isCount(older.size) || !isCount(newer.size) || older.size > newer.size) return false;
  if (older.size === newer.size) return proof.length === 0 && isSameHash(older.root, newer.root);
  if (older.size === 0) return proof.length === 0;
  if (!areHashes(proof) || proof.length === 0) return false;
  let [node, last] = [older.size - 1, newer.size - 1];
  while (isOdd(node)) [node, last] = [half(node), half(last)];
  // An older tree that is a full subtree is its own first hash.
  const path = node === 0 ? [older.root, ...proof] : proof;
  let [reachedOlder, reachedNewer] = [path[0]!, path[0]!];
  for (const sibling of path.slice(1)) {
    if (last === 0) return false;
    if (isOdd(node) || node === last) {
      reachedOlder = nodeHash(sibling, reachedOlder);
      reachedNewer = nodeHash(sibling, reachedNewer);
      while (!isOdd(node) && node !== 0) [node, last] = [half(node), half(last)];
    } else reachedNewer = nodeHash(reachedNewer, sibling);
    [node, last] = [half(node), half(last)];
  }
  return last === 0 && isSameHash(reachedOlder, older.root) && isSameHash(reachedNewer, newer.root);
}
