/** The stored Merkle tree against known answers and against the definition of RFC 6962. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EMPTY_ROOT, leafHash } from "../../../../shared/integrity/merkle/hashes.ts";
import { isConsistent, isIncluded } from "../../../../shared/integrity/merkle/proofs.ts";
import {
  DamagedTree,
  growTree,
  leafAt,
  proveConsistency,
  proveInclusion,
  type TilePlace,
  treeRoot,
} from "../../../../shared/integrity/merkle/tree.ts";
import { naiveConsistency, naiveInclusion, naiveLeaf, naiveRoot } from "./naive-tree.ts";

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");

/** Tiles in memory, with the number of reads. */
class Tiles {
  readonly stored = new Map<string, Uint8Array>();
  size = 0;
  reads = 0;
  written = 0;
  root: Uint8Array = EMPTY_ROOT;

  readonly source = async ({ level, n }: TilePlace): Promise<Uint8Array | undefined> => {
    this.reads += 1;
    return this.stored.get(`${level}/${n}`);
  };

  async append(leaves: readonly Uint8Array[]): Promise<void> {
    const { size, root, tiles } = await growTree(this.source, this.size, leaves);
    for (const { level, n, bytes } of tiles) this.stored.set(`${level}/${n}`, bytes);
    this.written += tiles.length;
    [this.size, this.root] = [size, root];
  }
}

const numbered = (count: number): Uint8Array[] =>
  Array.from({ length: count }, (_, i) => naiveLeaf(Buffer.from(`entry ${i}`)));

async function treeOf(leaves: readonly Uint8Array[], batch = leaves.length): Promise<Tiles> {
  const tiles = new Tiles();
  for (let from = 0; from < leaves.length; from += batch)
    await tiles.append(leaves.slice(from, from + batch));
  return tiles;
}

/** The leaves and roots of the reference implementation of Certificate Transparency. */
const KNOWN_LEAVES = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
];
const KNOWN_ROOTS = [
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];

describe("known answers", () => {
  test("the roots of Certificate Transparency's test trees", async () => {
    const tiles = new Tiles();
    expect(hex(await treeRoot(tiles.source, 0))).toBe(
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    );
    for (const [i, leaf] of KNOWN_LEAVES.entries()) {
      await tiles.append([leafHash(Buffer.from(leaf, "hex"))]);
      expect(hex(tiles.root), `size ${i + 1}`).toBe(KNOWN_ROOTS[i]);
    }
  });

  test("the inclusion and consistency proofs of these trees", async () => {
    const tiles = await treeOf(KNOWN_LEAVES.map((leaf) => leafHash(Buffer.from(leaf, "hex"))));
    expect((await proveInclusion(tiles.source, 0, 8)).map(hex)).toEqual([
      "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ]);
    expect((await proveConsistency(tiles.source, 6, 8)).map(hex)).toEqual([
      "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]);
  });
});

describe("against the definition", () => {
  test("all proofs of all trees with up to 33 leaves", async () => {
    const leaves = numbered(33);
    const { source } = await treeOf(leaves, 7);
    for (let size = 1; size <= leaves.length; size += 1) {
      const some = leaves.slice(0, size);
      const root = naiveRoot(some);
      expect(hex(await treeRoot(source, size))).toBe(hex(root));
      for (let index = 0; index < size; index += 1) {
        const proof = await proveInclusion(source, index, size);
        expect(proof.map(hex)).toEqual(naiveInclusion(index, some).map(hex));
        expect(isIncluded({ index, hash: leaves[index]! }, { size, root }, proof)).toBe(true);
        // The proof of one leaf is none for another place.
        for (let other = 0; other < size; other += 1) {
          if (other === index) continue;
          expect(isIncluded({ index: other, hash: leaves[index]! }, { size, root }, proof)).toBe(false);
        }
      }
      for (let older = 0; older <= size; older += 1) {
        const before = { size: older, root: naiveRoot(some.slice(0, older)) };
        const proof = await proveConsistency(source, older, size);
        if (older > 0) expect(proof.map(hex)).toEqual(naiveConsistency(older, some).map(hex));
        expect(isConsistent(before, { size, root }, proof)).toBe(true);
      }
    }
  });

  test("random trees over the borders of tiles, in random batches", async () => {
    const leaves = numbered(65_800);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(1, 3, 255, 256, 257, 600), { minLength: 1, maxLength: 4 }),
        fc.nat(),
        fc.nat(),
        async (batches, somewhere, earlier) => {
          const tiles = new Tiles();
          for (const count of batches) await tiles.append(leaves.slice(tiles.size, tiles.size + count));
          const { size, root, source } = tiles;
          const some = leaves.slice(0, size);
          expect(hex(root)).toBe(hex(naiveRoot(some)));
          const index = somewhere % size;
          expect(hex(await leafAt(source, index))).toBe(hex(leaves[index]!));
          expect((await proveInclusion(source, index, size)).map(hex)).toEqual(
            naiveInclusion(index, some).map(hex),
          );
          const older = 1 + (earlier % size);
          const consistency = await proveConsistency(source, older, size);
          expect(consistency.map(hex)).toEqual(naiveConsistency(older, some).map(hex));
        },
      ),
      { numRuns: 15 },
    );
    // A third level of tiles.
    const large = await treeOf(leaves, 10_000);
    expect(hex(large.root)).toBe(hex(naiveRoot(leaves)));
    for (const index of [0, 255, 256, 65_535, 65_536, 65_799]) {
      const proof = await proveInclusion(large.source, index, leaves.length);
      expect(isIncluded({ index, hash: leaves[index]! }, large, proof)).toBe(true);
    }
  });
});

test("appending costs a constant number of tiles, and a proof a few reads", async () => {
  const leaves = numbered(20_000);
  const tiles = await treeOf(leaves, 100);
  // 200 appends, each with the last tile of both levels at most, and the tile that it fills.
  expect(tiles.written).toBeLessThan(200 * 4);
  tiles.reads = 0;
  await proveInclusion(tiles.source, 12_345, tiles.size);
  expect(tiles.reads).toBeLessThanOrEqual(4);
});

describe("every changed byte is refused", () => {
  test("of the leaf, the root and the proofs, and of their lengths", async () => {
    const leaves = numbered(300);
    const { source, size, root } = await treeOf(leaves);
    const hash = leaves[77]!;
    const proof = await proveInclusion(source, 77, size);
    const older = { size: 77, root: naiveRoot(leaves.slice(0, 77)) };
    const consistency = await proveConsistency(source, 77, size);
    const flipped = (bytes: Uint8Array, at: number): Uint8Array => {
      const copy = Buffer.from(bytes);
      copy[at]! ^= 1;
      return copy;
    };
    for (let at = 0; at < 32; at += 1) {
      expect(isIncluded({ index: 77, hash: flipped(hash, at) }, { size, root }, proof)).toBe(false);
      expect(isIncluded({ index: 77, hash }, { size, root: flipped(root, at) }, proof)).toBe(false);
      expect(isConsistent({ ...older, root: flipped(older.root, at) }, { size, root }, consistency)).toBe(
        false,
      );
      expect(isConsistent(older, { size, root: flipped(root, at) }, consistency)).toBe(false);
      for (let i = 0; i < proof.length; i += 1)
        expect(isIncluded({ index: 77, hash }, { size, root }, proof.with(i, flipped(proof[i]!, at)))).toBe(
          false,
        );
      for (let i = 0; i < consistency.length; i += 1)
        expect(isConsistent(older, { size, root }, consistency.with(i, flipped(consistency[i]!, at)))).toBe(
          false,
        );
    }
    for (const bad of [proof.slice(1), proof.slice(0, -1), [...proof, hash], [hash, ...proof], []])
      expect(isIncluded({ index: 77, hash }, { size, root }, bad)).toBe(false);
    for (const bad of [consistency.slice(1), consistency.slice(0, -1), [...consistency, hash], []])
      expect(isConsistent(older, { size, root }, bad)).toBe(false);
    const other = await proveInclusion(source, 77, 255);
    expect(isIncluded({ index: 77, hash }, { size, root }, other)).toBe(false);
    for (const index of [-1, 0.5, Number.NaN, 300, 2 ** 53])
      expect(isIncluded({ index, hash }, { size, root }, proof)).toBe(false);
    expect(isConsistent({ size: 301, root }, { size, root }, [])).toBe(false);
    expect(isConsistent({ size, root: hash }, { size, root }, [])).toBe(false);
  });

  test("a lost or shortened tile is an error, never a wrong root", async () => {
    const tiles = await treeOf(numbered(600));
    const first = tiles.stored.get("0/0")!;
    tiles.stored.set("0/0", first.subarray(0, 100));
    await expect(proveInclusion(tiles.source, 9, 600)).rejects.toThrow(DamagedTree);
    tiles.stored.delete("1/0");
    await expect(treeRoot(tiles.source, 600)).rejects.toThrow("the tile 0 of level 1 is lost or damaged");
    await expect(growTree(tiles.source, 600, numbered(1))).rejects.toThrow(DamagedTree);
  });
});
