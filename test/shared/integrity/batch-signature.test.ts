import { expect, test } from "vitest";
import { signBatch, signedPart } from "../../../shared/integrity/batch-signature.ts";
import { isTextSignature, newSigningKeyPem, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { leafHash, nodeHash } from "../../../shared/integrity/merkle/hashes.ts";
import { treeWithPaths } from "../../../shared/integrity/merkle/paths.ts";
import { isIncluded } from "../../../shared/integrity/merkle/proofs.ts";
import { naiveRoot } from "./merkle/naive-tree.ts";

const TYPE = "application/vnd.test+json";
const key = signingKeyFrom(newSigningKeyPem());

function isSigned(payload: Uint8Array, signature: Uint8Array, type = TYPE): boolean {
  const part = signedPart(type, { payload, signature });
  return part !== null && isTextSignature(key.publicKey, part.bytes, part.signature);
}

const payloads = (count: number) => Array.from({ length: count }, (_, i) => Buffer.from(`{"a":${i}}`));

test("the root of a batch is that of RFC 6962, and each path leads to it", () => {
  for (let size = 1; size <= 40; size += 1) {
    const hashes = payloads(size).map((payload) => leafHash(payload));
    const { root, paths } = treeWithPaths(hashes);
    expect(Buffer.from(root)).toEqual(Buffer.from(naiveRoot(hashes)));
    for (const [index, path] of paths.entries()) {
      expect(isIncluded({ index, hash: hashes[index]! }, { size, root }, path)).toBe(true);
    }
  }
});

test("each payload of a batch is verified alone", () => {
  for (const size of [1, 2, 3, 7, 8, 33, 256]) {
    const batch = payloads(size);
    const signatures = signBatch(key, TYPE, batch);
    for (const [i, payload] of batch.entries()) expect(isSigned(payload, signatures[i]!)).toBe(true);
  }
});

test("the signature of one payload is that of Ed25519 alone", () => {
  const [payload] = payloads(1);
  expect(signBatch(key, TYPE, [payload!])).toEqual([key.sign(TYPE, payload!)]);
});

test("another payload, type, key or place in the batch does not verify", () => {
  const batch = payloads(5);
  const signatures = signBatch(key, TYPE, batch);
  expect(isSigned(batch[1]!, signatures[0]!)).toBe(false);
  expect(isSigned(Buffer.from("{}"), signatures[0]!)).toBe(false);
  expect(isSigned(batch[0]!, signatures[0]!, `${TYPE}x`)).toBe(false);
  const other = signBatch(signingKeyFrom(newSigningKeyPem()), TYPE, batch);
  expect(isSigned(batch[0]!, other[0]!)).toBe(false);
});

test("every changed byte of a signature is refused, and so is every other length", () => {
  const batch = payloads(6);
  for (const [i, signature] of signBatch(key, TYPE, batch).entries()) {
    for (let at = 0; at < signature.length; at += 1) {
      const changed = Uint8Array.from(signature);
      changed[at]! ^= 1 << (at & 7);
      expect(isSigned(batch[i]!, changed)).toBe(false);
    }
    for (let length = 0; length < signature.length; length += 1) {
      expect(isSigned(batch[i]!, signature.subarray(0, length))).toBe(false);
    }
    expect(isSigned(batch[i]!, Buffer.concat([signature, Buffer.alloc(32)]))).toBe(false);
  }
});

test("neither an inner node nor the root of a batch is a signed payload", () => {
  const batch = payloads(2);
  const [signature] = signBatch(key, TYPE, batch);
  const { root } = treeWithPaths(batch.map((payload) => leafHash(payload)));
  const short = signature!.subarray(0, 64);
  expect(isSigned(Buffer.from(root), short)).toBe(false);
  expect(isSigned(Buffer.from(nodeHash(root, root)), signature!)).toBe(false);
  // A tree of one leaf whose path is empty would otherwise accept what was signed as a root.
  const lonely = Buffer.concat([short, Buffer.from([0, 0, 0, 1])]);
  for (const payload of batch) expect(isSigned(payload, lonely)).toBe(false);
});
