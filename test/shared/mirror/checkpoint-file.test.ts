// The content of a file is the stored bytes with their hash, also with members of an agent's own.

import fc from "fast-check";
import { expect, test } from "vitest";
import { hashOf, seal } from "../../../shared/integrity/seal.ts";
import { checkpointInFile, fileContent, sealedInFile } from "../../../shared/mirror/checkpoint-file.ts";
import type { UnsealedCheckpoint } from "../../../shared/protocol/checkpoint.ts";

const compliance = fc.oneof(
  fc.constant({}),
  fc.dictionary(
    fc.string().filter((name) => !["hash", "signature", "__proto__"].includes(name)),
    fc.string(),
  ),
);
const checkpoint = fc
  .tuple(
    fc.dictionary(
      fc.string().filter((name) => name !== "__proto__"),
      fc.string(),
      { maxKeys: 3 },
    ),
    compliance,
  )
  .map(([others, own]) => ({ ...others, compliance: own }) as unknown as UnsealedCheckpoint);

test("a file reads back as the bytes from which it was made, and verifies", () => {
  fc.assert(
    fc.property(checkpoint, (unsealed) => {
      const sealed = seal(unsealed);
      const file = fileContent(sealed);
      expect(file.buffer.byteLength).toBe(file.length);
      const content = Buffer.from(file);
      const parsed = JSON.parse(content.toString("utf8"));
      expect(parsed.compliance.hash).toBe(sealed.hash);
      expect(hashOf(parsed)).toBe(sealed.hash);
      const { bytes, hash } = sealedInFile(content)!;
      expect([Buffer.from(bytes).equals(sealed.bytes), hash]).toEqual([true, sealed.hash]);
    }),
  );
});

test("what an agent wrote under the names of signatures verifies, and is not returned", () => {
  const record = { schema_version: "1.1", metadata: {}, compliance: {} };
  const forged = { ...record, electronic_signatures: [{ state: "valid" }], other_versions_signatures: [] };
  const sealed = seal(forged as unknown as UnsealedCheckpoint);
  const read = checkpointInFile(Buffer.from(fileContent(sealed)));
  expect(read).toEqual({ ...record, compliance: { hash: sealed.hash } });
});

test.each(["", "{", "null", "[]", "{}", '{"compliance":1}', '{"compliance":null}'])(
  "%j is no checkpoint, or has another hash",
  (text) => {
    const sealed = sealedInFile(Buffer.from(text));
    expect(sealed === null || /^[0-9a-f]{64}$/.test(sealed.hash)).toBe(true);
  },
);
