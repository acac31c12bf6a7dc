// `fleet keys` on a running fleet: rotations and revocations while agents write, and what the store, the trail and the scrub say afterwards.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { taskLines } from "../../../services/cli/commands/transfer/task-lines.ts";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { ExportLineOf } from "../../../shared/protocol/export-lines.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { type FleetClient, KnownKeys } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { newKey, register, storeSignedBy, WRITING } from "../../harness/records/signed.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 200_000;

let server: TestFleet;
let client: FleetClient;

beforeAll(async () => {
  // With threads, the store can be opened by other processes too.
  server = await startFleet({ FLEET_SCRUB_EVERY: "off", FLEET_THREADS: "2" });
  client = await server.client();
});
afterAll(() => server.stop());

const fleet = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: server.url, FLEET_HOME: server.home, FLEET_SPOOL_DIR: join(server.home, "spool") },
  });

async function json(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect({ exit, err }).toMatchObject({ exit: 0 });
  return JSON.parse(out);
}

const written = async (taskId: string) =>
  String((await client.createCheckpoint({ taskId, checkpoint: input() })).checkpointId);

const keyInFile = () => signingKeyFrom(readFileSync(join(server.home, "signing-key.pem"), "utf8")).id;

/** The key gets its place in the file after the store has it. */
async function keyAfter(before: string): Promise<string> {
  await expect.poll(keyInFile, { timeout: 30_000 }).not.toBe(before);
  return keyInFile();
}

const states = async (): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await json("keys", "list")).keys.map((key: { key_id: string; state: string }) => [
      key.key_id,
      key.state,
    ]),
  );

const signatureOf = async (id: string) => (await json("checkpoint", "show", id)).compliance.signature;

test("the keys of a fleet over a rotation and a revocation", { timeout: CALLS_MS }, async () => {
  const first = keyInFile();
  expect(await states()).toEqual({ [first]: "active" });
  const old = await written("auth");
  expect(await signatureOf(old)).toMatchObject({ state: "valid", key_id: first });
  expect((await fleet("checkpoint", "show", old)).out).toMatch(/Signature: valid, key [0-9a-f]{16}/);

  await json("keys", "rotate", first.slice(0, 10));
  const second = await keyAfter(first);
  expect(await states()).toEqual({ [first]: "retired", [second]: "active" });
  expect(readdirSync(server.home).filter((name) => name.endsWith(".next"))).toEqual([]);
  expect(await signatureOf(await written("auth"))).toMatchObject({ state: "valid", key_id: second });
  expect(await signatureOf(old)).toMatchObject({ state: "valid", key_id: first });

  await json("keys", "revoke", second, "--reason", "compromised");
  const third = await keyAfter(second);
  expect(await states()).toEqual({ [first]: "retired", [second]: "revoked", [third]: "active" });
  expect(await signatureOf(await written("auth"))).toMatchObject({ state: "valid", key_id: third });

  expect(await json("audit", "verify", "auth")).toMatchObject({
    ok: true,
    signatures: { signed: 3, unsigned: 0, problems: [] },
  });
  const { entries } = await json("audit", "tenant");
  const acts = entries.map(({ entry }: { entry: string }) => JSON.parse(entry).action);
  expect(acts).toEqual([
    ...[
      "key_add",
      "key_rotate",
      "key_add",
      "key_retire",
      "key_rotate",
      "key_add",
      "key_retire",
      "key_revoke",
    ],
  ]);
  expect(await json("audit", "tenant", "--verify")).toMatchObject({ ok: true, signatures: { problems: [] } });
  expect((await fleet("scrub", "start", "--wait")).exit).toBe(0);

  const file = join(server.home, "auth.jsonl");
  await json("export", "--task", "auth", "--out", file);
  const signing_keys = [first, second, third].sort();
  const whole = { complete: true, signed: 3, unsigned: 0, signature_problems: 0, signing_keys };
  expect(await json("export", "verify", file)).toMatchObject(whole);
});

test("a key that does not exist is named", { timeout: CALLS_MS }, async () => {
  for (const change of ["revoke", "rotate"]) {
    const { exit, err } = await fleet("keys", change, "0000000000000000000");
    expect({ exit, err }).toMatchObject({ exit: 4, err: expect.stringContaining("keys list") as string });
  }
  expect((await fleet("keys", "revoke", keyInFile(), "--since", "soon")).exit).toBe(64);
  const unstated = await fleet("keys", "revoke", keyInFile());
  expect(unstated).toMatchObject({ exit: 64, err: expect.stringContaining("Give --reason") as string });
  expect(await states()).toMatchObject({ [keyInFile()]: "active" });
});

test("a key without a running holder is named, and the others are replaced", {
  timeout: CALLS_MS,
}, async () => {
  const first = keyInFile();
  const gone = newKey();
  const store = await openStore(`lmdb:${join(server.home, "store")}?shared`);
  await register(storeSignedBy(store, gone), gone);
  await store.close({ drainMs: 5_000 });
  // As long as the holder of the other key may need on a busy machine.
  const { exit, err } = await fleet("keys", "rotate", "--timeout", "10s", "--json");
  expect({ exit, err }).toMatchObject({ exit: 69, err: expect.stringContaining(gone.id) as string });
  const second = await keyAfter(first);
  expect(await states()).toMatchObject({ [first]: "retired", [gone.id]: "active", [second]: "active" });
  await json("keys", "revoke", gone.id, "--reason", "lost");
  expect(await states()).toMatchObject({ [gone.id]: "revoked" });
});

test("a key that was replaced is found stolen later, and what would weaken that is named", {
  timeout: CALLS_MS,
}, async () => {
  const before = keyInFile();
  await json("keys", "rotate", before);
  await keyAfter(before);
  const revoke = async (...args: string[]) => {
    const { exit, out, err } = await fleet("keys", "revoke", before, ...args, "--json");
    expect(exit, err).toBe(0);
    const { revoked_at: at, revoked_reason: reason } = JSON.parse(out).keys.find(
      ({ key_id }: { key_id: string }) => key_id === before,
    );
    return { at, reason, warning: err === "" ? null : JSON.parse(err).warning.code };
  };
  const first = await revoke("--reason", "replaced", "--since", "2026-01-04T10:00Z");
  expect(first).toMatchObject({ reason: "replaced", warning: null });
  const { at } = first;
  expect(await revoke("--reason", "compromised")).toEqual({ at, reason: "compromised", warning: null });
  const unchanged = { at, reason: "compromised", warning: "key_unchanged" };
  expect(await revoke("--reason", "compromised")).toEqual(unchanged);
  expect(await revoke("--reason", "lost", "--since", "2026-01-05")).toEqual(unchanged);
  const earlier = await revoke("--reason", "replaced", "--since", "2026-01-03T10:00:00.000Z");
  const kept = { at: "2026-01-03T10:00:00.000Z", reason: "compromised", warning: "key_reason_kept" };
  expect(earlier).toEqual(kept);
  expect((await fleet("keys", "list")).out).toContain("(compromised)");
  const again = await fleet("keys", "revoke", before, "--reason", "compromised");
  expect(again.err).toContain("nothing changed");
});

/** The fleet with readers of an older version: their pages lack signatures. `isOlder`: of a page. */
function withOlderReaders(isOlder: (fromSeq: number, call: number) => boolean): FleetClient {
  let calls = 0;
  const getAudit: FleetClient["getAudit"] = async (task, query) => {
    calls += 1;
    const { signatures, ...page } = await client.getAudit(task, { ...query, limit: 1 });
    const isRead = signatures !== undefined && !isOlder(query?.fromSeq ?? 1, calls);
    return { ...page, ...(isRead && { signatures }) };
  };
  return new Proxy(client, {
    get(target, name) {
      if (name === "getAudit") return getAudit;
      const member = Reflect.get(target, name) as unknown;
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
}

async function auditLines(from: FleetClient, task: string) {
  const keys = new KnownKeys(() => client.admin.signingKeys());
  const lines: ExportLineOf<"audit">[] = [];
  for await (const line of taskLines(from, task, { keys })) if (line.kind === "audit") lines.push(line);
  return lines;
}

test("an export says which signatures an older reader has left out, and asks the others", {
  timeout: CALLS_MS,
}, async () => {
  await written("mixed");
  await written("mixed");
  const unread = await auditLines(
    withOlderReaders(() => true),
    "mixed",
  );
  expect(unread.map(({ signature_unread, signature }) => [signature_unread, signature])).toEqual([
    [true, undefined],
    [true, undefined],
  ]);
  const read = await auditLines(
    withOlderReaders((_seq, call) => call % 2 === 1),
    "mixed",
  );
  expect(read.every((line) => line.signature !== undefined && !("signature_unread" in line))).toBe(true);
  // The fleet has stated that all its entries are signed, so a gap would be a finding for ever.
  await expect(
    auditLines(
      withOlderReaders((fromSeq) => fromSeq > 1),
      "mixed",
    ),
  ).rejects.toMatchObject({
    code: "UNAVAILABLE",
  });
});

test("a removed signature is found on this machine and by the scrub", { timeout: CALLS_MS }, async () => {
  const id = await written("billing");
  const store = await openStore(`lmdb:${join(server.home, "store")}?shared`);
  await store.transact(WRITING, async (tx) => tx.clear(tenantKeys("default").signature("billing", 1)));
  await store.close({ drainMs: 5_000 });
  expect(await signatureOf(id)).toMatchObject({ state: "signature_missing" });
  const { exit, out } = await fleet("audit", "verify", "billing");
  expect({ exit, out }).toMatchObject({
    exit: 8,
    out: expect.stringContaining("signature_missing") as string,
  });
  const exported = await fleet(
    "export",
    "--task",
    "billing",
    "--out",
    join(server.home, "b.jsonl"),
    "--json",
  );
  expect(exported.exit).toBe(8);
  expect(JSON.parse(exported.out)).toMatchObject({ complete: false, signature_problems: 1 });
  const scrubbed = await fleet("scrub", "start", "--wait");
  expect(scrubbed).toMatchObject({ exit: 8, out: expect.stringContaining("signature_missing") as string });
});
