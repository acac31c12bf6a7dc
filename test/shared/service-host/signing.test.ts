/** The key of a service over its life: made, registered, rotated, revoked, replaced, and interrupted between the steps. */
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { keyStateOf, type SigningKeyRecord } from "../../../shared/protocol/signing-keys.ts";
import { listSigningKeys } from "../../../shared/records/signing/key-record.ts";
import {
  addSigningKey,
  requestRotation,
  retireSigningKey,
  revokeSigningKey,
  serviceActor,
} from "../../../shared/records/signing/key-registry.ts";
import { transactAsLast } from "../../../shared/records/signing/signed-store.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { openSigning, type Signing } from "../../../shared/service-host/signing.ts";
import { SigningKeyFile } from "../../../shared/service-host/signing-key-file.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";
import { findingsOf, scrub } from "../../harness/records/scrub.ts";
import { repositoryOn, WRITING } from "../../harness/records/signed.ts";

const WAIT = { timeout: 30_000 };
const change = () => ({ actor: serviceActor("test"), nowMs: Date.now() });

let records: TestRecords;
let home: string;
const open: Signing[] = [];

beforeEach(async () => {
  records = await openTestRecords("memory");
  home = mkdtempSync(join(tmpdir(), "fleet-signing-"));
});

afterEach(async () => {
  await Promise.all(open.splice(0).map(({ stop }) => stop()));
  await records.close();
  rmSync(home, { recursive: true });
});

async function start(options: { signingKeyFile?: string; home?: string } = { home }): Promise<Signing> {
  const metrics = createMetrics({ ofProcess: false });
  const context = { log: testLog, metrics, clock: systemClock };
  const signing = await openSigning(context, records.store, { service: "standalone", ...options });
  open.push(signing);
  return signing;
}

const stopAll = () => Promise.all(open.splice(0).map(({ stop }) => stop()));
const fileOf = () => join(home, "signing-key.pem");
const keyOfFile = () => signingKeyFrom(readFileSync(fileOf(), "utf8")).id;
const registry = (): Promise<SigningKeyRecord[]> => records.store.read(WRITING, listSigningKeys);
const states = async () =>
  Object.fromEntries((await registry()).map((key) => [key.key_id, keyStateOf(key)] as const));

async function expectSound(signing: Signing): Promise<void> {
  const repository = repositoryOn(signing.store, records);
  const { checkpoint_id } = await create(repository);
  const { compliance } = await repository.get("default", checkpoint_id);
  expect(compliance.signature).toMatchObject({ state: "valid", key_id: keyOfFile() });
  const { pass } = await scrub({ store: records.store, repository });
  expect(await findingsOf(repository)).toEqual([]);
  expect(pass.unsigned_entries).toBe(0);
}

test("a standalone fleet makes its key, which only its user can read, and keeps it", async () => {
  await expectSound(await start());
  const id = keyOfFile();
  expect(statSync(fileOf()).mode & 0o777).toBe(0o600);
  await stopAll();
  await expectSound(await start());
  expect(await states()).toEqual({ [id]: "active" });
  expect(await registry()).toMatchObject([{ owner: "standalone", purpose: "commits", replaces: null }]);
});

test("without a key, and with the setting off, commits are not signed", async () => {
  for (const options of [{}, { home, signingKeyFile: "off" }]) {
    const signing = await start(options);
    expect(signing.store).toBe(records.store);
  }
  expect(await registry()).toEqual([]);
});

test("a file that is missing, exposed or no key is refused with the command that makes one", async () => {
  const file = join(home, "given.pem");
  const refused = { message: "the signing key cannot be used", exitCode: 78 };
  await expect(start({ signingKeyFile: file })).rejects.toMatchObject(refused);
  writeFileSync(file, newSigningKeyPem(), { mode: 0o600 });
  chmodSync(file, 0o604);
  await expect(start({ signingKeyFile: file })).rejects.toMatchObject({
    ...refused,
    details: { problem: "its mode is 604" },
  });
  writeFileSync(file, "no key");
  chmodSync(file, 0o600);
  await expect(start({ signingKeyFile: file })).rejects.toMatchObject(refused);
  expect(await registry()).toEqual([]);
});

test("a requested rotation takes effect in all processes of the file, while they write", async () => {
  const signings = [await start(), await start()] as const;
  await expectSound(signings[0]);
  const before = keyOfFile();
  const writing = signings.map(async ({ store }, n) => {
    const repository = repositoryOn(store, records);
    do await create(repository, { task: `writer-${n}` });
    while (keyOfFile() === before);
    await create(repository, { task: `writer-${n}` });
  });
  await signings[0].store.transact(WRITING, (tx) => requestRotation(tx, before, change()));
  await Promise.all(writing);
  const after = keyOfFile();
  expect(await states()).toEqual({ [before]: "retired", [after]: "active" });
  expect((await registry()).find(({ key_id }) => key_id === after)).toMatchObject({ replaces: before });
  for (const signing of signings) await expectSound(signing);
});

test("after a revocation, the next key signs, and the old signatures stay valid", async () => {
  const signing = await start();
  await expectSound(signing);
  const before = keyOfFile();
  await stopAll();
  const operator = await start({ signingKeyFile: await keyFile("operator.pem") });
  await operator.store.transact(WRITING, (tx) =>
    revokeSigningKey(tx, { keyId: before, since: undefined, reason: "compromised" }, change()),
  );
  const again = await start();
  expect(keyOfFile()).not.toBe(before);
  await expectSound(again);
  expect(await states()).toMatchObject({ [before]: "revoked", [keyOfFile()]: "active" });
});

async function keyFile(name: string): Promise<string> {
  const path = join(home, name);
  new SigningKeyFile(path).create();
  return path;
}

test("a file that an operator replaces is taken over", async () => {
  const signing = await start();
  const before = keyOfFile();
  writeFileSync(fileOf(), newSigningKeyPem());
  const after = keyOfFile();
  await vi.waitFor(
    async () => expect(await states()).toEqual({ [before]: "retired", [after]: "active" }),
    WAIT,
  );
  await expectSound(signing);
});

test("a rotation that ended before the registration continues with the same successor", async () => {
  await start();
  const before = keyOfFile();
  await stopAll();
  const next = new SigningKeyFile(fileOf()).next();
  await expectSound(await start());
  expect(keyOfFile()).toBe(before);
  await records.store.transact(WRITING, (tx) => requestRotation(tx, before, change()));
  await vi.waitFor(async () => expect(keyOfFile()).toBe(next.id), WAIT);
  expect(await states()).toEqual({ [before]: "retired", [next.id]: "active" });
});

test("a rotation that ended before the file had its place continues", async () => {
  await start();
  await stopAll();
  const file = new SigningKeyFile(fileOf());
  const before = file.read();
  const next = file.next();
  await transactAsLast(records.store, before, WRITING, async (tx) => {
    await addSigningKey(tx, next, { ...change(), replaces: before.id });
    await retireSigningKey(tx, before.id, change());
  });
  await expectSound(await start());
  expect(keyOfFile()).toBe(next.id);
  expect(existsSync(`${fileOf()}.next`)).toBe(false);
  expect(await states()).toEqual({ [before.id]: "retired", [next.id]: "active" });
});
