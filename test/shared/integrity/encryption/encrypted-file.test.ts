// Encrypted files: of any length they open to the same bytes, for each of their receivers and for no other key, and every change of them is found.

import {
  createDecipheriv,
  createHash,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  randomBytes,
} from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { EncryptedFile } from "../../../../shared/integrity/encryption/files/encrypted-file.ts";
import { FileEncrypter } from "../../../../shared/integrity/encryption/files/file-encrypter.ts";
import {
  type EncryptedFileError,
  PART_BYTES,
  PART_TAG_BYTES,
} from "../../../../shared/integrity/encryption/files/file-format.ts";
import {
  openFileOpeners,
  openFileReceivers,
} from "../../../../shared/integrity/encryption/files/file-keys.ts";
import {
  exportKeyPairOf,
  type FileOpener,
  type FileReceiver,
  newPrivateKeyText,
  receiverOf,
} from "../../../../shared/integrity/encryption/files/x25519-key.ts";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";

const STORED = PART_BYTES + PART_TAG_BYTES;
const folder = mkdtempSync(join(tmpdir(), "fleet-encrypted-file-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const newSecret = () => randomBytes(32).toString("base64");
const secret = secretKeyOf(newSecret())!;

async function encrypted(content: Buffer, keys: readonly FileReceiver[] = [secret], chunk = content.length) {
  const encrypter = await FileEncrypter.begin(keys);
  const bytes = [encrypter.head];
  for (let at = 0; at < content.length; at += chunk)
    bytes.push(encrypter.add(content.subarray(at, at + chunk)));
  return { file: Buffer.concat([...bytes, encrypter.end()]), head: encrypter.head.length };
}

const opened = (file: Buffer, keys: readonly FileOpener[] = [secret]) =>
  EncryptedFile.open(async (at, length) => file.subarray(at, at + length), file.length, keys);

async function contentOf(file: Buffer, keys?: readonly FileOpener[]): Promise<Buffer> {
  const open = await opened(file, keys);
  return open.read(0, open.size);
}

const problemOf = (file: Buffer, keys?: readonly FileOpener[]) =>
  contentOf(file, keys).then(
    () => null,
    (error: EncryptedFileError) => error.problem,
  );

test.each([0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 3 * PART_BYTES + 7])(
  "a file of %i bytes opens to the same bytes, however it was written",
  async (length) => {
    const content = randomBytes(length);
    for (const chunk of [Math.max(1, length), 1_000, PART_BYTES, PART_BYTES + 1]) {
      const { file, head } = await encrypted(content, [secret], chunk);
      expect((await contentOf(file)).equals(content)).toBe(true);
      expect(file.length).toBe(head + length + PART_TAG_BYTES * Math.max(1, Math.ceil(length / PART_BYTES)));
    }
  },
);

test("any range is read alone", async () => {
  const content = randomBytes(3 * PART_BYTES + 100);
  const { file } = await encrypted(content);
  const open = await opened(file);
  await fc.assert(
    fc.asyncProperty(fc.nat(content.length + 10), fc.nat(2 * PART_BYTES), async (at, length) => {
      expect((await open.read(at, length)).equals(content.subarray(at, at + length))).toBe(true);
    }),
    { numRuns: 100 },
  );
});

test("each receiver opens it alone: a secret key, and the holders of private keys", async () => {
  const [first, second, stranger] = [newPrivateKeyText(), newPrivateKeyText(), newPrivateKeyText()].map(
    (text) => exportKeyPairOf(text)!,
  );
  const receivers = [secret, receiverOf(first!.publicText)!, receiverOf(second!.publicText)!];
  const content = randomBytes(1_000);
  const { file } = await encrypted(content, receivers);
  for (const key of [secret, first!, second!])
    expect((await contentOf(file, [stranger!, key])).equals(content)).toBe(true);
  await expect(contentOf(file, [stranger!, secretKeyOf(newSecret())!])).rejects.toMatchObject({
    problem: "no_key",
    details: { key_ids: receivers.map(({ id }) => id) },
  });
  expect(await problemOf(file, [])).toBe("no_key");
});

test("a changed byte is found at every place of the head and of the ends of parts", async () => {
  const pair = exportKeyPairOf(newPrivateKeyText())!;
  const content = randomBytes(2 * PART_BYTES + 50);
  const { file, head } = await encrypted(content, [secret, pair]);
  const ends = [0, 1, 2].flatMap((part) => {
    const from = head + part * STORED;
    const to = Math.min(file.length, from + STORED);
    return [from, from + 1, to - PART_TAG_BYTES - 1, to - PART_TAG_BYTES, to - 1];
  });
  for (const at of [...Array(head).keys(), ...ends]) {
    const changed = Buffer.from(file);
    changed[at] = changed[at]! ^ 1;
    expect([at, await problemOf(changed)]).not.toEqual([at, null]);
  }
});

test("a file that was cut off at any place is refused before a byte of it is read", async () => {
  const { file, head } = await encrypted(randomBytes(2 * PART_BYTES + 50));
  const lengths = [head, head + STORED, head + 2 * STORED];
  for (const length of [
    0,
    1,
    20,
    head - 1,
    ...lengths.flatMap((at) => [at - 1, at, at + 1, at + 17]),
    file.length - 1,
  ])
    await expect(opened(file.subarray(0, length))).rejects.toMatchObject({
      problem: expect.stringMatching(length === 0 || length === 1 ? /^head$/ : /^(cut|head)$/),
    });
  expect(await problemOf(file.subarray(0, head + STORED))).toBe("cut");
});

test("parts that were swapped, repeated, removed, added or taken from another file are refused", async () => {
  const content = randomBytes(3 * PART_BYTES);
  const [{ file, head }, other] = [await encrypted(content), await encrypted(content)];
  const of = (bytes: Buffer, from: number) =>
    [0, 1, 2].map((n) => bytes.subarray(from + n * STORED, from + (n + 1) * STORED));
  const [a, b, c] = of(file, head) as [Buffer, Buffer, Buffer];
  const start = file.subarray(0, head);
  const cases: Record<string, Buffer[]> = {
    swapped: [b, a, c],
    repeated: [a, b, b, c],
    removed: [a, c],
    "last ones swapped": [a, c, b],
    added: [a, b, c, c],
    "bytes behind": [a, b, c, randomBytes(30)],
    "another file's": [a, of(other.file, other.head)[1]!, c],
  };
  for (const [name, parts] of Object.entries(cases))
    expect([name, await problemOf(Buffer.concat([start, ...parts]))]).not.toEqual([name, null]);
  const foreign = Buffer.concat([other.file.subarray(0, other.head), file.subarray(head)]);
  expect(await problemOf(foreign)).not.toBeNull();
});

test("the head of a newer version is named, and other files are no encrypted ones", async () => {
  const { file } = await encrypted(randomBytes(10));
  const newer = Buffer.from(
    file.toString("latin1").replace("fleet-encrypted 1\n", "fleet-encrypted 2\n"),
    "latin1",
  );
  await expect(opened(newer)).rejects.toMatchObject({
    problem: "format",
    details: { format: 2, supported: 1 },
  });
  for (const text of [
    "",
    "{}",
    "fleet-encrypted 01\n{}\n",
    "fleet-encrypted x\n{}\n",
    "fleet-encrypted 1\n[]\n",
  ])
    expect([text, await problemOf(Buffer.from(text))]).toEqual([text, "head"]);
});

/** AES-256-GCM with the tag behind the ciphertext. */
function gcm(key: Buffer, nonce: Buffer, sealed: Buffer, associated: Buffer): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 });
  decipher.setAAD(associated).setAuthTag(sealed.subarray(-16));
  return Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
}

const hkdf = (secretBytes: Buffer, salt: Buffer, info: string) =>
  Buffer.from(hkdfSync("sha256", secretBytes, salt, info, 32));

/** Written from EXPORT.md alone. */
function readByDocument(
  file: Buffer,
  wrapping: (wrapped: Buffer) => { key: Buffer; sealed: Buffer },
): Buffer {
  const start = file.indexOf("\n", file.indexOf("\n") + 1) + 1;
  const head = JSON.parse(file.toString("utf8", file.indexOf("\n") + 1, start)) as {
    keys: { wrapped: string }[];
    salt: string;
    commitment: string;
  };
  const [salt, commitment] = [Buffer.from(head.salt, "base64"), Buffer.from(head.commitment, "base64")];
  const { key, sealed } = wrapping(Buffer.from(head.keys[0]!.wrapped, "base64"));
  const place = Buffer.concat([sealed.subarray(0, 10), Buffer.from("fleet/encrypted-file/v1")]);
  const fileKey = gcm(key, sealed.subarray(10, 22), sealed.subarray(22), place);
  expect(hkdf(fileKey, salt, "fleet/encrypted-file/v1/commitment").equals(commitment)).toBe(true);
  const partsKey = hkdf(fileKey, salt, "fleet/encrypted-file/v1/parts");
  const hash = createHash("sha256").update(file.subarray(0, start)).digest();
  const plain: Buffer[] = [];
  for (let number = 0, at = start; at < file.length; number += 1, at += 65_552) {
    const counted = Buffer.alloc(12);
    counted.writeUInt32BE(number, 8);
    const last = Buffer.from([at + 65_552 >= file.length ? 1 : 0]);
    plain.push(
      gcm(
        partsKey,
        counted,
        file.subarray(at, at + 65_552),
        Buffer.concat([hash, counted.subarray(4), last]),
      ),
    );
  }
  return Buffer.concat(plain);
}

test("a reader that follows the document opens a file of either kind of key", async () => {
  const content = randomBytes(2 * PART_BYTES + 9);
  const text = newSecret();
  const { file } = await encrypted(content, [secretKeyOf(text)!]);
  const key = Buffer.from(text, "base64");
  expect(readByDocument(file, (sealed) => ({ key, sealed })).equals(content)).toBe(true);

  const pair = generateKeyPairSync("x25519");
  const own = Buffer.from(pair.publicKey.export({ format: "jwk" }).x!, "base64url");
  const forPair = await encrypted(content, [receiverOf(`x25519:${own.toString("base64url")}`)!]);
  const opened = readByDocument(forPair.file, (wrapped) => {
    const share = wrapped.subarray(0, 32);
    const jwk = { kty: "OKP", crv: "X25519", x: share.toString("base64url") };
    const publicKey = createPublicKey({ key: jwk, format: "jwk" });
    const shared = diffieHellman({ privateKey: pair.privateKey, publicKey });
    const salt = Buffer.concat([share, own]);
    return { key: hkdf(shared, salt, "fleet/encrypted-file/v1/x25519"), sealed: wrapped.subarray(32) };
  });
  expect(opened.equals(content)).toBe(true);
});

/** What a later version must still open. */
const OLD = {
  secret: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
  private: "x25519-private:ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8",
  public: "x25519:NYBy1jZYgNGu6jKa35EhODhR7SGijjt16WXQ0s0WYlQ",
  file: "ZmxlZXQtZW5jcnlwdGVkIDEKeyJrZXlzIjpbeyJpZCI6ImxvY2FsOjc4ZTM0NjUzZWFkYTI4ZmMiLCJ3cmFwcGVkIjoid1FGNDQwWlQ2dG9vL0NpZnZ2YWNXSFNQUzVBUm1JTkFUUENaRkpsRTBoSHhCQ0R6RHlRVUE5bTZpYURIcnN4Q1Uwd3RoYlBSUDZ3Rkd2VzJycDBwOGxabXluOG1OQT09In0seyJpZCI6IngyNTUxOTplZDA0Yzk1ODE1M2U0NTQ4Iiwid3JhcHBlZCI6InFTK2RTemhFSjZtRWFFUE9YWWFLUUJrcFA4eFpGT2ExdFoza0dpNmZmMEhCQWUwRXlWZ1ZQa1ZJTkRxa0NmaS9zK0ZBUVlIOVR4VVNqNUMrdFljaG9wZTlwSlF3a1FjSTFNSG56dm53Z2ZFVkx0VW9xZ1ZJOEkwRHIxaldkcEhCM052am5IMHkifV0sInNhbHQiOiJKanpmUDFlNFo5NTBiZG9ld0llaVN3PT0iLCJjb21taXRtZW50IjoiL2c2TEhPVElnN2N5eFowVitSZkZhUzhJMkJtUkdRRWQzSkpyZTliWTFtUT0ifQpi3xE2JJ+EsRn97FmM8eiZz/G1Cnf3udSx1v6CDDrWwSMJ",
};

test("a file of the first version opens with both of its keys", async () => {
  const pair = exportKeyPairOf(OLD.private)!;
  expect(pair.publicText).toBe(OLD.public);
  for (const key of [pair, secretKeyOf(OLD.secret)!]) {
    const content = await contentOf(Buffer.from(OLD.file, "base64"), [key]);
    expect(content.toString()).toBe("the first version\n");
  }
});

test("keys are named by their source, and a wrong one is refused without its text", async () => {
  const pair = exportKeyPairOf(newPrivateKeyText())!;
  const text = newPrivateKeyText();
  const path = join(folder, "private.key");
  writeFileSync(path, `${text}\n`, { mode: 0o600 });
  const open = join(folder, "open.key");
  writeFileSync(open, `${text}\n`, { mode: 0o644 });
  const options = { setting: "--key", env: { KEY: newSecret(), OTHER: "nothing" } };
  const receivers = await openFileReceivers([pair.publicText, "env:KEY", `file:${path}`, "env:KEY"], options);
  expect(receivers.map(({ id }) => id)).toEqual([
    pair.id,
    secretKeyOf(options.env.KEY)!.id,
    exportKeyPairOf(text)!.id,
  ]);
  expect((await openFileOpeners([`file:${path}`], options))[0]!.id).toBe(exportKeyPairOf(text)!.id);
  const refusals: [string, object][] = [
    [pair.publicText, { message: "a public key opens no file" }],
    [text, { message: "a key has no known source", details: { source: "unknown" } }],
    ["env:MISSING", { details: { variable: "MISSING" } }],
    ["env:OTHER", { details: { source: "env:OTHER" } }],
    [`file:${open}`, { details: { problem: "its mode is 644" } }],
  ];
  for (const [source, refusal] of refusals) {
    const failure = await openFileOpeners([source], options).then(
      () => null,
      (error: unknown) => error,
    );
    expect(failure).toMatchObject(refusal);
    expect(JSON.stringify(failure)).not.toContain(text);
  }
  expect(receiverOf("x25519:short")).toBeNull();
  expect(exportKeyPairOf(pair.publicText)).toBeNull();
});

test("the greatest number of receivers fits into the head, and more are refused", async () => {
  const many = Array.from({ length: 51 }, () => exportKeyPairOf(newPrivateKeyText())!);
  const sources = many.map(({ publicText }) => publicText);
  const options = { setting: "--key", env: {} };
  const { file } = await encrypted(Buffer.from("all"), await openFileReceivers(sources.slice(1), options));
  expect((await contentOf(file, [many.at(-1)!])).toString()).toBe("all");
  await expect(openFileReceivers(sources, options)).rejects.toMatchObject({
    details: { expected: "at most 50" },
  });
});

test("a public key of small order encrypts nothing", async () => {
  const zero = receiverOf(`x25519:${Buffer.alloc(32).toString("base64url")}`)!;
  await expect(encrypted(randomBytes(10), [zero])).rejects.toMatchObject({ kind: "refused" });
});

test("two files of the same content differ, and show none of it", async () => {
  const content = Buffer.alloc(PART_BYTES, "same");
  const [one, two] = [await encrypted(content), await encrypted(content)];
  expect(one.file.subarray(one.head).equals(two.file.subarray(two.head))).toBe(false);
  expect(one.file.includes("samesame")).toBe(false);
});
