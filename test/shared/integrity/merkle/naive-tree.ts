/** The Merkle tree as RFC 6962 defines it, over all leaves at once. Written apart from the stored tree. */
import { createHash } from "node:crypto";

const sha256 = (...parts: Uint8Array[]): Uint8Array =>
  createHash("sha256").update(Buffer.concat(parts)).digest();

export const naiveLeaf = (data: Uint8Array): Uint8Array => sha256(Buffer.from([0]), data);

function split(count: number): number {
  let k = 1;
  while (k * 2 < count) k *= 2;
  return k;
}

export function naiveRoot(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0]!;
  const k = split(leaves.length);
  return sha256(Buffer.from([1]), naiveRoot(leaves.slice(0, k)), naiveRoot(leaves.slice(k)));
}

export function naiveInclusion(index: number, leaves: readonly Uint8Array[]): Uint8Array[] {
  if (leaves.length <= 1) return [];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return index < k
    ? [...naiveInclusion(index, left), naiveRoot(right)]
    : [...naiveInclusion(index - k, right), naiveRoot(left)];
}

export function naiveConsistency(older: number, leaves: readonly Uint8Array[], isWhole = true): Uint8Array[] {
  if (older === leaves.length) return isWhole ? [] : [naiveRoot(leaves)];
  const k = split(leaves.length);
  const [left, right] = [leaves.slice(0, k), leaves.slice(k)];
  return older <= k
    ? [...naiveConsistency(older, left, isWhole), naiveRoot(right)]
    : [...naiveConsistency(older - k, right, false), naiveRoot(left)];
}
