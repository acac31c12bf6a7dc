/**
 * The hashes of a Merkle tree (RFC 6962, RFC 9162). A leaf and an inner node begin with different bytes, so that
 * neither can be given out as the other.
 */
import { createHash } from "node:crypto";

export const TREE_HASH_BYTES = 32;

const LEAF = Buffer.from([0x00]);
const NODE = Buffer.from([0x01]);

/** The root of the tree without leaves. */
export const EMPTY_ROOT: Uint8Array = createHash("sha256").digest();

export function leafHash(data: Uint8Array | string): Uint8Array {
  return createHash("sha256").update(LEAF).update(data).digest();
}

export function nodeHash(left: Uint8Array, right: Uint8Array): Uint8Array {
  return createHash("sha256").update(NODE).update(left).update(right).digest();
}

export function isSameHash(a: Uint8Array, b: Uint8Array): boolean {
  return Buffer.compare(a, b) === 0;
}

/** The hash of a full subtree, whose lowest nodes these are. Their number is a power of two. */
export function subtreeHash(nodes: readonly Uint8Array[]): Uint8Array {
  let level = nodes;
  while (level.length > 1) {
    const above: Uint8Array[] = [];
    for (let i = 0; i < level.length; i += 2) above.push(nodeHash(level[i]!, level[i + 1]!));
    level = above;
  }
  return level[0]!;
}
