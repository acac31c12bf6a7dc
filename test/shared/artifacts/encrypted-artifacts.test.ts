// Artifacts in an encrypted folder: what the contract of all places does not ask.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ArtifactFolder } from "../../../shared/artifacts/folder.ts";
import { partSize } from "../../../shared/protocol/artifacts.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { encryptedFolder } from "./places.ts";

const CANARY = "canary-70a1e2c9f3b84d56";
const bytes = Buffer.from(`${CANARY} in an artifact`);

let path: string;
let key: string;
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "fleet-encrypted-artifacts-"));
  const file = join(path, ".root-key");
  newEncryptionKeyFile(file);
  key = `file:${file}`;
});
afterEach(() => rmSync(path, { recursive: true, force: true }));

const fresh = () => ({ tenant: "default", upload: uuidv7() });

test("plain parts of a time before are read, and are encrypted then", async () => {
  const at = fresh();
  await new ArtifactFolder(path).put(at, 0, bytes);
  expect(filesWith(path, CANARY)).toHaveLength(1);
  const store = encryptedFolder(path, [key]);
  expect(await store.size({ ...at, parts: 1 })).toBe(bytes.length);
  expect(Buffer.from((await store.get(at, 0))!)).toEqual(bytes);
  expect(filesWith(path, CANARY)).toEqual([]);
  expect(await store.size({ ...at, parts: 1 })).toBe(bytes.length);
  expect(Buffer.from((await encryptedFolder(path, [key]).get(at, 0))!)).toEqual(bytes);
  await store.put(at, 0, bytes);
  await expect(store.put(at, 0, Buffer.from("other"))).rejects.toMatchObject({ code: "CONFLICT" });
});

test("a part of the greatest size comes back", async () => {
  const at = fresh();
  const store = encryptedFolder(path, [key]);
  const whole = Buffer.alloc(partSize(Number.MAX_SAFE_INTEGER, 0), CANARY);
  await store.put(at, 0, whole);
  expect(Buffer.compare((await store.get(at, 0))!, whole)).toBe(0);
  expect(filesWith(path, CANARY)).toEqual([]);
});

test("a part that was moved to another upload, tenant or number is not given", async () => {
  const [one, other] = [fresh(), fresh()];
  const store = encryptedFolder(path, [key]);
  await store.put(one, 0, bytes);
  await store.put(other, 0, Buffer.from("other"));
  cpSync(join(path, "default", one.upload, "0"), join(path, "default", other.upload, "0"));
  cpSync(join(path, "default", one.upload, "0"), join(path, "default", one.upload, "1"));
  expect(await store.get(other, 0)).toBeNull();
  expect(await store.get(one, 1)).toBeNull();
});

test("without the root key nothing is read as if it were plain, and nothing is stored plain", async () => {
  const at = fresh();
  await encryptedFolder(path, [key]).put(at, 0, bytes);
  const blind = encryptedFolder(path, undefined);
  await expect(blind.get(at, 0)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(blind.put(fresh(), 0, bytes)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(filesWith(path, CANARY)).toEqual([]);
});
