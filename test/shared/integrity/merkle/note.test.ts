/** Signed checkpoints against the known answer of the format, and against changed bytes. */
import { createPublicKey, verify } from "node:crypto";
import { expect, test } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { leafHash } from "../../../../shared/integrity/merkle/hashes.ts";
import { noteKeyText, openCheckpoint, signCheckpoint } from "../../../../shared/integrity/merkle/note.ts";

const ORIGIN = "example.com/fleet";
const SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

test("the example of the format verifies, and its key has the same text", () => {
  // golang.org/x/mod/sumdb/note: PeterNeumann's key and note, whose text is no checkpoint.
  const vkey = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
  const raw = Buffer.from(vkey.split("+")[2]!, "base64").subarray(1);
  const publicKey = Buffer.concat([SPKI_PREFIX, raw]).toString("base64");
  expect(noteKeyText("PeterNeumann", publicKey)).toBe(vkey);
  const text =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
  const line = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=";
  const signature = Buffer.from(line, "base64").subarray(4);
  const key = createPublicKey({ key: Buffer.from(publicKey, "base64"), type: "spki", format: "der" });
  expect(verify(null, Buffer.from(text), key, signature)).toBe(true);
  expect(openCheckpoint(`${text}\n— PeterNeumann ${line}\n`, [publicKey])).toBeNull();
});

test("a checkpoint is opened with its key, under its name, and with no other", async () => {
  const [key, other] = [signingKeyFrom(newSigningKeyPem()), signingKeyFrom(newSigningKeyPem())];
  const checkpoint = { origin: ORIGIN, size: 20_852_163, root: leafHash("root") };
  const note = signCheckpoint(key, checkpoint);
  expect(note.split("\n").slice(0, 3)).toEqual([
    ORIGIN,
    "20852163",
    Buffer.from(checkpoint.root).toString("base64"),
  ]);
  expect(openCheckpoint(note, [other.publicKey, key.publicKey])).toEqual({
    checkpoint,
    publicKey: key.publicKey,
  });
  expect(openCheckpoint(note, [other.publicKey])).toBeNull();
  expect(openCheckpoint(note, ["not a key", ""])).toBeNull();
  // Witnesses add their lines, before or after.
  const [text, line] = note.split("\n\n") as [string, string];
  const witness = `— witness.example ${Buffer.alloc(76).toString("base64")}\n`;
  for (const lines of [line + witness, witness + line])
    expect(openCheckpoint(`${text}\n\n${lines}`, [key.publicKey])?.checkpoint).toEqual(checkpoint);
  // The signature of a commit is none of a checkpoint.
  const asCommit = await key.sign("application/json", Buffer.from(`${text}\n`));
  const forged = Buffer.concat([Buffer.from(line.split(" ")[2]!, "base64").subarray(0, 4), asCommit]);
  expect(openCheckpoint(`${text}\n\n— ${ORIGIN} ${forged.toString("base64")}\n`, [key.publicKey])).toBeNull();
});

test("every changed, lost or added byte is refused", async () => {
  const key = signingKeyFrom(newSigningKeyPem());
  const note = signCheckpoint(key, { origin: ORIGIN, size: 1_234, root: leafHash("root") });
  const bytes = Buffer.from(note);
  const isOpened = (changed: Buffer): boolean => openCheckpoint(changed.toString(), [key.publicKey]) !== null;
  expect(isOpened(bytes)).toBe(true);
  for (let at = 0; at < bytes.length; at += 1) {
    for (const bit of [0x01, 0x20, 0x80]) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= bit;
      expect(isOpened(changed), `byte ${at} ^ ${bit}`).toBe(false);
    }
    expect(isOpened(Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)])), `without ${at}`).toBe(
      false,
    );
    const added = Buffer.concat([bytes.subarray(0, at), Buffer.from("0"), bytes.subarray(at)]);
    expect(isOpened(added), `added at ${at}`).toBe(false);
  }
  for (const text of ["", "\n\n", note.trimEnd(), `${note}\n`, note.repeat(2), note.replace("\n\n", "\n")])
    expect(openCheckpoint(text, [key.publicKey])).toBeNull();
});
