/** The key of a service over its life: made, registered, rotated, revoked, replaced, and interrupted between the steps. */
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { keyStateOf, type SigningKeyRecord } from "../../../../shared/protocol/signing-keys.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import type { Format } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { listSigningKeys } from "../../../../shared/records/signing/key-record.ts";
import {
  addSigningKey,
  requestRotation,
  retireSigningKey,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import { transactAsLast } from "../../../../shared/records/signing/signed-store.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openSigning, type Signing } from "../../../../shared/service-host/signing/signing.ts";
import { SigningKeyFile } from "../../../../shared/service-host/signing/signing-key-file.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create, OPERATOR, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn, WRITING } from "../../../harness/records/signed.ts";

const keyFileModule = new URL("../../../../shared/service-host/signing/signing-key-file.ts", import.meta.url)
  .href;
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
  const { compliance } = await repository.get("default", checkpoint_id, undefined, { signature: true });
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
    const { store } = await start(options);
    await create(repositoryOn(store, records));
    const { pass } = await scrub({ store, repository: repositoryOn(store, records) });
    expect(pass.unsigned_entries).toBeGreaterThan(0);
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
  await stopAll();
  const before = await revoked();
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

const candidateOf = (file: SigningKeyFile) => file.candidate(async () => true);
const nextFiles = () => readdirSync(home).filter((name) => name.endsWith(".next"));

test("a rotation that ended before the registration continues with the same successor", async () => {
  await start();
  const before = keyOfFile();
  await stopAll();
  const next = await candidateOf(new SigningKeyFile(fileOf()));
  const signing = await start();
  await expectSound(signing);
  expect(keyOfFile()).toBe(before);
  await signing.store.transact(WRITING, (tx) => requestRotation(tx, before, change()));
  await vi.waitFor(async () => expect(keyOfFile()).toBe(next.id), WAIT);
  expect(await states()).toEqual({ [before]: "retired", [next.id]: "active" });
});

test("a rotation that ended before the file had its place continues", async () => {
  await start();
  await stopAll();
  const file = new SigningKeyFile(fileOf());
  const before = file.read();
  const next = await candidateOf(file);
  await transactAsLast(records.store, before, WRITING, async (tx) => {
    await addSigningKey(tx, next, { ...change(), replaces: before.id });
    await retireSigningKey(tx, before.id, change());
  });
  await expectSound(await start());
  expect(keyOfFile()).toBe(next.id);
  expect(nextFiles()).toEqual([]);
  expect(await states()).toEqual({ [before.id]: "retired", [next.id]: "active" });
});

/** Revokes the key of the file, which nothing uses, with the key of an operator. */
async function revoked(): Promise<string> {
  await start();
  const before = keyOfFile();
  await stopAll();
  const operator = await start({ signingKeyFile: await keyFile("operator.pem") });
  await operator.store.transact(WRITING, (tx) =>
    revokeSigningKey(tx, { keyId: before, since: undefined, reason: "compromised" }, change()),
  );
  await stopAll();
  return before;
}

test("processes that share a file agree on one successor, in any order of their steps", async () => {
  const before = await revoked();
  const signings = await Promise.all(Array.from({ length: 5 }, () => start()));
  const after = keyOfFile();
  const active = (await registry()).filter((key) => keyStateOf(key) === "active" && key.replaces === before);
  expect(active).toMatchObject([{ key_id: after }]);
  for (const signing of signings) await expectSound(signing);
});

test("only the successor that the store names takes the place of its predecessor", async () => {
  const file = new SigningKeyFile(fileOf());
  file.create();
  const before = file.read();
  const next = await file.candidate(async () => false);
  const other = await file.candidate(async (id) => id !== next.id);
  expect(nextFiles()).toHaveLength(2);
  file.promote(next.id, { predecessor: before.id });
  // A slow process has seen the file before.
  file.promote(other.id, { predecessor: before.id });
  expect(keyOfFile()).toBe(next.id);
  expect(file.find(other.id)?.id).toBe(other.id);
});

test("a key whose record was removed or damaged is replaced, and commits continue", async () => {
  const signing = await start();
  await expectSound(signing);
  const rows = (id: string) => systemKeys.signingKey(id);
  for (const value of [undefined, Uint8Array.of(0xc1)]) {
    const before = keyOfFile();
    await records.store.transact(WRITING, async (tx) =>
      value === undefined ? tx.clear(rows(before)) : tx.set(rows(before), value),
    );
    const { checkpoint_id } = await create(repositoryOn(signing.store, records));
    expect(keyOfFile()).not.toBe(before);
    const { compliance } = await repositoryOn(signing.store, records).get(
      "default",
      checkpoint_id,
      undefined,
      { signature: true },
    );
    expect(compliance.signature).toMatchObject({ state: "valid", key_id: keyOfFile() });
  }
  expect(Object.values(await states())).toEqual(["active"]);
});

test("the lost record of a revoked key does not make it usable again", async () => {
  const before = await revoked();
  await records.store.transact(WRITING, async (tx) => tx.clear(systemKeys.signingKey(before)));
  await start();
  expect(keyOfFile()).not.toBe(before);
  expect(await states()).not.toHaveProperty(before);
});

test("an old key that is put back into the file is not taken, and not overwritten", async () => {
  const log = { ...testLog, error: vi.fn() };
  const metrics = createMetrics({ ofProcess: false });
  const context = { log: log as unknown as typeof testLog, metrics, clock: systemClock };
  const signing = await openSigning(context, records.store, { service: "standalone", home });
  open.push(signing);
  const before = keyOfFile();
  const old = readFileSync(fileOf(), "utf8");
  await signing.store.transact(WRITING, (tx) => requestRotation(tx, before, change()));
  await vi.waitFor(async () => expect(keyOfFile()).not.toBe(before), WAIT);
  const after = keyOfFile();
  await vi.waitFor(
    async () => expect(await states()).toEqual({ [before]: "retired", [after]: "active" }),
    WAIT,
  );
  writeFileSync(fileOf(), old);
  // Requests wake the process, which would otherwise examine the file after ten seconds.
  await signing.store.transact(WRITING, (tx) => requestRotation(tx, after, change()));
  await vi.waitFor(() => {
    const problems = log.error.mock.calls.map(([facts]) => (facts as { error?: Error }).error?.message);
    expect(problems).toContain(
      "the file has a signing key that is out of use, or begins ahead of the clock; the present one stays",
    );
  }, WAIT);
  expect(keyOfFile()).toBe(before);
  const { checkpoint_id } = await create(repositoryOn(signing.store, records));
  const { compliance } = await repositoryOn(signing.store, records).get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "valid", key_id: after });
});

test("a service that has not noticed the end of its key revokes that key with the next one", async () => {
  const signing = await start();
  const repository = repositoryOn(signing.store, records);
  const key_id = keyOfFile();
  const other = await start();
  await other.store.transact(WRITING, (tx) => requestRotation(tx, key_id, change()));
  // A client repeats the call when the service had no time to replace the key.
  const revoking = () => repository.signingKeys.revoke(OPERATOR, { key_id, reason: "replaced" });
  const { key } = await vi.waitFor(revoking, WAIT);
  expect(key).toMatchObject({ key_id, revoked_reason: "replaced" });
  await expectSound(signing);
});

test("services that share a new key and start together register it once, and keep it", async () => {
  const signings = await Promise.all([start(), start(), start(), start(), start()]);
  expect(await states()).toEqual({ [keyOfFile()]: "active" });
  expect(readdirSync(home)).toEqual(["signing-key.pem"]);
  for (const signing of signings) await expectSound(signing);
});

test("a store that an older version has begun does not require signatures", async () => {
  const key = systemKeys.meta("format");
  await records.store.transact(WRITING, async (tx) => {
    const { created_at: _, ...older } = decode<Format>((await tx.get(key))!);
    tx.set(key, encode(older));
  });
  const signing = await start();
  const repository = repositoryOn(signing.store, records);
  expect(await repository.signingKeys.list()).toMatchObject({ signatures_required: false });
  // A service of the older version, beside the new one.
  await create(repositoryOn(records.store, records));
  const { pass } = await scrub({ store: records.store, repository });
  expect(await findingsOf(repository)).toEqual([]);
  expect(pass.unsigned_entries).toBe(1);
});

test("a service starts without signing when the chain of the default tenant is damaged", async () => {
  await create(repositoryOn(records.store, records));
  await records.store.transact(WRITING, async (tx) =>
    tx.set(tenantKeys("default").tenantChain(), Buffer.from("damaged")),
  );
  const signing = await start();
  await create(repositoryOn(signing.store, records), { task: "task-2" });
  expect(await states()).toEqual({});
});

test("a service without a key does not start on a store whose first commit was signed", async () => {
  await start();
  await stopAll();
  await expect(start({})).rejects.toMatchObject({
    message: "every commit in this store must be signed, and the service has no signing key",
    exitCode: 78,
  });
});

test("a service that cannot replace its key does not revoke it, and says what to do", async () => {
  // No name for a successor fits beside this one.
  const file = join(home, "k".repeat(250));
  writeFileSync(file, newSigningKeyPem(), { mode: 0o600 });
  const signing = await start({ signingKeyFile: file });
  const { key_id } = (await registry())[0]!;
  const repository = repositoryOn(signing.store, records);
  await expect(repository.signingKeys.revoke(OPERATOR, { key_id, reason: "lost" })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    details: { setting: "FLEET_SIGNING_KEY" },
  });
  expect(await states()).toEqual({ [key_id]: "active" });
  await create(repository);
});

/** A process that is killed while it writes its key: the file has its bytes, and not yet its name. */
function killedWriter(path: string): void {
  const program = `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    fs.linkSync = () => process.kill(process.pid, "SIGKILL");
    syncBuiltinESMExports();
    const { SigningKeyFile } = await import(${JSON.stringify(keyFileModule)});
    new SigningKeyFile(${JSON.stringify(path)}).create();`;
  const { signal } = spawnSync(process.execPath, ["--input-type=module", "--eval", program]);
  expect(signal).toBe("SIGKILL");
}

test("a start removes the unfinished keys of killed processes, and not those that are being written", async () => {
  killedWriter(fileOf());
  const [old] = readdirSync(home) as [string];
  expect(old).toMatch(/^signing-key\.pem\.\d+\.[0-9a-f]{8}$/);
  const successor = `signing-key.pem.0123456789abcdef.next.1.${"0".repeat(8)}`;
  const other = `other.pem.1.${"0".repeat(8)}`;
  for (const name of [successor, other]) writeFileSync(join(home, name), "", { mode: 0o600 });
  const before = new Date(Date.now() - 120_000);
  for (const name of [old, successor, other]) utimesSync(join(home, name), before, before);
  killedWriter(fileOf());
  const fresh = readdirSync(home).filter((name) => ![old, successor, other].includes(name));
  expect(fresh).toHaveLength(1);
  await start();
  expect(readdirSync(home).sort()).toEqual([other, ...fresh, "signing-key.pem"].sort());
});
