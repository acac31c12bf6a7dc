// Sealing: the stored bytes are the hashed bytes, and every change to them is detected.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";
import { CorruptBytes, hashOf, newSalt, open, seal } from "../../../shared/integrity/seal.ts";
import {
  type Checkpoint,
  checkpointSchema,
  type UnsealedCheckpoint,
} from "../../../shared/protocol/checkpoint.ts";
import { parseJsonText } from "../../../shared/protocol/json.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CHECKPOINT_ID, unsealed } from "./checkpoint.ts";
import { jsonValue } from "./values.ts";

test("no two salts are equal, and each has 32 bytes", () => {
  const salts = Array.from({ length: 1_000 }, newSalt);
  expect(new Set(salts).size).toBe(1_000);
  for (const salt of salts) expect(salt).toMatch(/^[0-9a-f]{64}$/);
});

test("opening returns the checkpoint with its hash, and it is valid", () => {
  const checkpoint = unsealed();
  const sealed = seal(checkpoint);
  const opened = open(sealed);
  expect(opened).toEqual({ ...checkpoint, compliance: { ...checkpoint.compliance, hash: sealed.hash } });
  expect(checkpointSchema.parse(opened)).toEqual(opened);
});

test("the hash is the SHA-256 of the stored canonical bytes", () => {
  const { bytes, hash } = seal(unsealed());
  expect(Buffer.from(bytes).toString()).toBe(canonicalText(unsealed()));
  expect(hash).toBe(sha256Hex(bytes));
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
});

test("a signature stands beside the hash and is not part of it", () => {
  const sealed = seal(unsealed());
  const opened = open(sealed);
  expect(opened.compliance).not.toHaveProperty("signature");
  opened.compliance.signature = { state: "valid", key_id: "0".repeat(64), signed_at: null };
  expect(hashOf(opened)).toBe(sealed.hash);
});

test("a client can compute the hash of a checkpoint with any unknown fields", () => {
  fc.assert(
    fc.property(jsonValue, jsonValue, (extra, inner) => {
      const base = unsealed({ extra });
      const checkpoint = { ...base, compliance: { ...base.compliance, inner } } as UnsealedCheckpoint;
      const sealed = seal(checkpoint);
      expect(hashOf(parseJsonText(JSON.stringify(open(sealed))) as Checkpoint)).toBe(sealed.hash);
    }),
  );
});

describe("corrupt bytes", () => {
  const sealed = seal(unsealed());

  test("every flipped bit is detected", () => {
    for (let bit = 0; bit < sealed.bytes.length * 8; bit += 1) {
      const bytes = Uint8Array.from(sealed.bytes);
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(() => open({ bytes, hash: sealed.hash })).toThrow(CorruptBytes);
    }
  });

  test.each([
    ["the last byte cut off", sealed.bytes.subarray(0, -1)],
    ["nothing left", new Uint8Array(0)],
    ["a byte more", Buffer.concat([sealed.bytes, Buffer.from(" ")])],
    ["another checkpoint", seal(unsealed({ schema_version: "1.2" })).bytes],
  ])("%s", (_, bytes) => {
    expect(() => open({ bytes, hash: sealed.hash })).toThrow(
      expect.objectContaining({ name: "CorruptBytes", reason: "hash mismatch" }),
    );
  });

  test("a flipped bit in the hash", () => {
    const wrong = sealed.hash.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
    expect(() => open({ bytes: sealed.bytes, hash: wrong })).toThrow(CorruptBytes);
  });
});

describe("size", () => {
  const ofSize = (bytes: number): UnsealedCheckpoint => {
    const empty = seal(unsealed({ filler: "" })).bytes.length;
    return unsealed({ filler: "x".repeat(bytes - empty) });
  };

  test("exactly the limit is sealed", () => {
    expect(seal(ofSize(LIMITS.checkpoint_bytes_max)).bytes.length).toBe(1_000_000);
  });

  test("one byte more is TOO_LARGE, with both sizes", () => {
    expect(() => seal(ofSize(LIMITS.checkpoint_bytes_max + 1))).toThrow(
      expect.objectContaining({
        code: "TOO_LARGE",
        fields: [{ path: "checkpoint", expected: "at most 1000000 bytes", got: "1000001 bytes" }],
      }),
    );
  });

  test("bytes count, not characters", () => {
    const checkpoint = unsealed({ filler: "€".repeat(333_334) });
    expect(() => seal(checkpoint)).toThrow(expect.objectContaining({ code: "TOO_LARGE" }));
  });
});

test("a fixed checkpoint has a fixed hash, against which other implementations can be tested", () => {
  const minimal = {
    metadata: { checkpoint_id: CHECKPOINT_ID },
    compliance: { retention_policy: "standard" },
  };
  expect(seal(minimal as unknown as UnsealedCheckpoint).hash).toBe(
    sha256Hex(
      `{"compliance":{"retention_policy":"standard"},"metadata":{"checkpoint_id":"${CHECKPOINT_ID}"}}`,
    ),
  );
});
