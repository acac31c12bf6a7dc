/**
 * A Merkle tree that grows, stored as tiles: the hashes of 256 neighbouring full subtrees of one size, as in C2SP
 * tlog-tiles. Level 0 has the leaves, and each hash of a level is the root of a full tile of the level below. So N
 * leaves need about N / 256 tiles, an append writes only the last tile of each level, and every proof, also for a
 * smaller tree, needs a few tiles.
 */
import { EMPTY_ROOT, nodeHash, subtreeHash, TREE_HASH_BYTES } from "./hashes.ts";

/** The hashes of a full tile. */
export const TILE_WIDTH = 256;

export interface TilePlace {
  readonly level: number;
  readonly n: number;
}

export interface Tile extends TilePlace {
  readonly bytes: Uint8Array;
}

/** Reads a tile. undefined: there is none. */
export type TileSource = (place: TilePlace) => Promise<Uint8Array | undefined>;

/** A tile is absent, or shorter than the size of the tree says. */
export class DamagedTree extends Error {
  readonly place: TilePlace;
  constructor(place: TilePlace) {
    super(`the tile ${place.n} of level ${place.level} is lost or damaged`);
    this.name = "DamagedTree";
    this.place = place;
  }
}

/** The last hashes of each level, which are not a full tile yet. */
type Edge = readonly (readonly Uint8Array[])[];

function hashesIn(bytes: Uint8Array, count: number): Uint8Array[] {
  const at = (i: number) => bytes.subarray(i * TREE_HASH_BYTES, (i + 1) * TREE_HASH_BYTES);
  return Array.from({ length: count }, (_, i) => at(i));
}

async function readTile(source: TileSource, place: TilePlace, count: number): Promise<Uint8Array[]> {
  const bytes = await source(place);
  if (bytes === undefined || bytes.length < count * TREE_HASH_BYTES) throw new DamagedTree(place);
  return hashesIn(bytes, count);
}

async function readEdge(source: TileSource, size: number): Promise<Edge> {
  const levels: Promise<Uint8Array[]>[] = [];
  for (let [level, count] = [0, size]; count > 0; level += 1, count = Math.floor(count / TILE_WIDTH)) {
    const rest = count % TILE_WIDTH;
    const place = { level, n: Math.floor(count / TILE_WIDTH) };
    levels.push(rest === 0 ? Promise.resolve([]) : readTile(source, place, rest));
  }
  return Promise.all(levels);
}

function rootOf(edge: Edge): Uint8Array {
  // The greatest power of two in the number of a level's hashes is the largest full subtree among them, which stands first.
  const peaks = edge.toReversed().flatMap((hashes) => {
    const found: Uint8Array[] = [];
    for (let from = 0; from < hashes.length; ) {
      const width = greatestPower(hashes.length - from);
      found.push(subtreeHash(hashes.slice(from, from + width)));
      from += width;
    }
    return found;
  });
  return peaks.length === 0 ? EMPTY_ROOT : peaks.reduceRight((right, left) => nodeHash(left, right));
}

/** The greatest power of two up to `count`, which is at least 1. */
function greatestPower(count: number): number {
  let power = 1;
  while (power * 2 <= count) power *= 2;
  return power;
}

export interface GrownTree {
  /** The root before, by which the caller notices tiles that were changed. */
  readonly rootBefore: Uint8Array;
  readonly size: number;
  readonly root: Uint8Array;
  /** The new and the changed tiles. */
  readonly tiles: readonly Tile[];
}

/** Appends leaves to the tree of this size. Throws {@link DamagedTree}. */
export async function growTree(
  source: TileSource,
  size: number,
  leaves: readonly Uint8Array[],
): Promise<GrownTree> {
  const before = await readEdge(source, size);
  const after: (readonly Uint8Array[])[] = [];
  const tiles: Tile[] = [];
  let added = leaves;
  let count = size;
  for (let level = 0; added.length > 0 || level < before.length; level += 1) {
    const hashes = [...(before[level] ?? []), ...added];
    const full: Uint8Array[] = [];
    const first = Math.floor(count / TILE_WIDTH);
    for (let i = 0; i * TILE_WIDTH < hashes.length && added.length > 0; i += 1) {
      const some = hashes.slice(i * TILE_WIDTH, (i + 1) * TILE_WIDTH);
      tiles.push({ level, n: first + i, bytes: Buffer.concat(some) });
      if (some.length === TILE_WIDTH) full.push(subtreeHash(some));
    }
    after.push(hashes.slice(full.length * TILE_WIDTH));
    added = full;
    count = first;
  }
  return { rootBefore: rootOf(before), size: size + leaves.length, root: rootOf(after), tiles };
}

/** The root of the tree of its first `size` leaves. Throws {@link DamagedTree}. */
export async function treeRoot(source: TileSource, size: number): Promise<Uint8Array> {
  return rootOf(await readEdge(source, size));
}

/** The hash of a leaf. Throws {@link DamagedTree}. */
export async function leafAt(source: TileSource, index: number): Promise<Uint8Array> {
  return (await hashesAt(source, { level: 0, first: index, count: 1 }))[0]!;
}

/** `count` hashes of a level within one tile. */
async function hashesAt(
  source: TileSource,
  { level, first, count }: { level: number; first: number; count: number },
): Promise<Uint8Array[]> {
  const place = { level, n: Math.floor(first / TILE_WIDTH) };
  const offset = first % TILE_WIDTH;
  return (await readTile(source, place, offset + count)).slice(offset);
}

/** The hash of the leaves from `from` up to `to`, where `from` is a multiple of the subtree's width. */
async function rangeHash(source: TileSource, from: number, to: number): Promise<Uint8Array> {
  const width = greatestPower(to - from);
  if (width < to - from) {
    const left = await rangeHash(source, from, from + width);
    return nodeHash(left, await rangeHash(source, from + width, to));
  }
  let [level, count, first] = [0, width, from];
  while (count >= TILE_WIDTH) [level, count, first] = [level + 1, count / TILE_WIDTH, first / TILE_WIDTH];
  return subtreeHash(await hashesAt(source, { level, first, count }));
}

/** The width of the left part of a tree: the greatest power of two below its size, which is at least 2. */
const leftWidth = (size: number): number => greatestPower(size - 1);

/** The proof that the leaf is in the tree of this size, which must be greater than `index`. Throws {@link DamagedTree}. */
export async function proveInclusion(source: TileSource, index: number, size: number): Promise<Uint8Array[]> {
  const read = rememberedTiles(source);
  const proof: Uint8Array[] = [];
  for (let [from, to] = [0, size]; to - from > 1; ) {
    const middle = from + leftWidth(to - from);
    proof.unshift(index < middle ? await rangeHash(read, middle, to) : await rangeHash(read, from, middle));
    if (index < middle) to = middle;
    else from = middle;
  }
  return proof;
}

/** The proof that the tree of the size `newer` begins with that of the size `older`. Throws {@link DamagedTree}. */
export async function proveConsistency(
  source: TileSource,
  older: number,
  newer: number,
): Promise<Uint8Array[]> {
  if (older === 0 || older === newer) return [];
  const read = rememberedTiles(source);
  const proof: Uint8Array[] = [];
  let [from, to] = [0, newer];
  while (to !== older) {
    const middle = from + leftWidth(to - from);
    proof.unshift(older <= middle ? await rangeHash(read, middle, to) : await rangeHash(read, from, middle));
    if (older <= middle) to = middle;
    else from = middle;
  }
  // A verifier has the root of the older tree, which is the subtree that is reached, if it begins with the first leaf.
  if (from > 0) proof.unshift(await rangeHash(read, from, to));
  return proof;
}

/** Reads each tile once. */
export function rememberedTiles(source: TileSource): TileSource {
  const known = new Map<string, Promise<Uint8Array | undefined>>();
  return (place) => {
    const name = `${place.level}/${place.n}`;
    const tile = known.get(name) ?? source(place);
    known.set(name, tile);
    return tile;
  };
}
