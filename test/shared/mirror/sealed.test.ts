// A sealed mirror: its files show nothing, serve as plain ones do, and take the place of plain ones.

import { createSecretKey, randomBytes } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openRootKeys } from "../../../shared/integrity/encryption/root-keys.ts";
import { mirrorSeal } from "../../../shared/mirror/encryption/mirror-key.ts";
import { MirrorSeal } from "../../../shared/mirror/encryption/mirror-seal.ts";
import { MirrorFiles } from "../../../shared/mirror/files.ts";
import { MirrorFolder } from "../../../shared/mirror/folder.ts";
import { mirrorIdentity } from "../../../shared/mirror/follower.ts";
import { readMirroredTrail } from "../../../shared/mirror/restorable.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { create, input, send } from "../../harness/records/records.ts";
import { type MirrorBench, openMirrorBench } from "./bench.ts";

const CANARY = "canary-b48e01c7d2f96a35";
const TASK = { tenant: "default", task: "task-1" };
const setting = "FLEET_ENCRYPTION_KEY";

const newSeal = () => new MirrorSeal({ id: randomBytes(8), secret: createSecretKey(randomBytes(32)) });

let path: string;
let bench: MirrorBench;
const seal = newSeal();
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "fleet-sealed-mirror-"));
});
afterEach(async () => {
  await bench.close();
  rmSync(path, { recursive: true, force: true });
});

const at = (...names: string[]) => join(path, "checkpoints", ...names);
const written = (goal = CANARY) => create(bench.repository, { checkpoint: input({ goal }) });

async function entriesOf(folder: MirrorFolder): Promise<string[]> {
  const entries: string[] = [];
  for await (const entry of folder.audit(TASK)) entries.push(entry);
  return entries;
}

/** The same store from now on, with sealed files. */
async function sealFiles(): Promise<void> {
  const { parts } = bench;
  const sealed = {
    ...parts,
    files: new MirrorFiles(path, seal),
    identity: mirrorIdentity(bench.format, seal),
  };
  bench = { ...bench, parts: sealed, folder: new MirrorFolder(path, async () => seal) };
}

test("no file shows what it holds, and the reader finds all of it", async () => {
  bench = await openMirrorBench("memory", path, seal);
  const first = await written();
  const second = await written();
  await bench.follow();
  expect(filesWith(path, CANARY)).toEqual([]);
  expect(readdirSync(at("task-1")).sort()).toEqual(
    [
      "audit.jsonl.enc",
      `chk-${first.checkpoint_id}.json.enc`,
      `chk-${second.checkpoint_id}.json.enc`,
      "latest.json",
    ].sort(),
  );
  expect(readlinkSync(at("task-1", "latest.json"))).toBe(`chk-${second.checkpoint_id}.json.enc`);
  const { folder } = bench;
  expect(await folder.latest(TASK)).toBe(second.checkpoint_id);
  expect((await folder.checkpoints(TASK)).sort()).toEqual([first.checkpoint_id, second.checkpoint_id].sort());
  expect((await folder.checkpoint(TASK, first.checkpoint_id))?.execution_state.goal).toBe(CANARY);
  expect(await folder.read(TASK, second.checkpoint_id)).toMatchObject({ hash: second.hash });
  expect(await readMirroredTrail(folder.audit(TASK))).toMatchObject({ seq: 2 });
});

test("a lost row is restored from its sealed file", async () => {
  bench = await openMirrorBench("memory", path, seal);
  const { checkpoint_id: id } = await written();
  await bench.follow();
  await bench.store.transact({ label: "lose", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) =>
    tx.clear(tenantKeys("default").checkpoint("task-1", id)),
  );
  expect((await bench.repository.get("default", id))?.execution_state.goal).toBe(CANARY);
  expect(bench.restored).toHaveLength(1);
});

test("plain files are replaced by sealed ones, with the trail that another store began", async () => {
  const other = await openMirrorBench("memory", path);
  await create(other.repository, { checkpoint: input({ goal: `${CANARY} of another store` }) });
  await other.follow();
  await other.close();
  bench = await openMirrorBench("memory", path);
  const { checkpoint_id: id } = await written();
  await written();
  await bench.follow();
  const before = await entriesOf(bench.folder);
  const asides = await bench.folder.earlierAudits(TASK);
  expect(asides).toHaveLength(1);
  expect(filesWith(at("task-1"), CANARY)).not.toEqual([]);

  await sealFiles();
  await bench.follow();
  const names = readdirSync(at("task-1"));
  const surplus = names.filter((name) => name.startsWith("chk-") && name.endsWith(".json"));
  // The file of the other store is not one of this store, so it stays.
  expect(surplus).toHaveLength(1);
  expect(names.filter((name) => name.endsWith(".jsonl"))).toEqual([]);
  expect(filesWith(path, CANARY)).toEqual(surplus.map((name) => at("task-1", name)));
  expect(await entriesOf(bench.folder)).toEqual(before);
  expect(await bench.folder.earlierAudits(TASK)).toEqual(asides);
  for await (const entry of bench.folder.earlierAudit(TASK, asides[0]!))
    expect(JSON.parse(entry).seq).toBe(1);
  expect((await bench.folder.checkpoint(TASK, id))?.execution_state.goal).toBe(CANARY);
});

test("a mirror that was killed while it replaced plain files is completed", async () => {
  bench = await openMirrorBench("memory", path);
  const { checkpoint_id: id } = await written();
  await written();
  await bench.follow();
  cpSync(at("task-1"), join(path, "before"), { recursive: true });
  await sealFiles();
  await bench.follow();
  // As after a kill before the plain files were removed, and before the position was written.
  for (const name of ["audit.jsonl", `chk-${id}.json`])
    cpSync(join(path, "before", name), at("task-1", name));
  rmSync(join(path, "before"), { recursive: true });
  await bench.folder.forgetPosition();
  expect(await entriesOf(bench.folder)).toHaveLength(2);
  await bench.follow();
  expect(filesWith(path, CANARY)).toEqual([]);
  expect(await entriesOf(bench.folder)).toHaveLength(2);
});

test("files that a mirror without a seal wrote meanwhile are replaced", async () => {
  bench = await openMirrorBench("memory", path, seal);
  await written();
  await bench.follow();
  const sealed = bench.parts;
  const plain = {
    ...sealed,
    files: new MirrorFiles(path),
    identity: mirrorIdentity(bench.format, undefined),
  };
  await { ...bench, parts: plain }.follow();
  expect(filesWith(path, CANARY)).not.toEqual([]);
  await written();
  await bench.follow();
  expect(filesWith(path, CANARY)).toEqual([]);
  expect(await entriesOf(bench.folder)).toHaveLength(2);
});

test("the trail continues behind its sealed end, also after a torn line", async () => {
  bench = await openMirrorBench("memory", path, seal);
  const { checkpoint_id: id } = await written();
  await bench.follow();
  const trail = at("task-1", "audit.jsonl.enc");
  writeFileSync(trail, Buffer.concat([readFileSync(trail), Buffer.from("wQGtorn")]));
  await send(bench.repository, "update", { checkpoint_id: id, patch: { context_summary: { notes: ["x"] } } });
  await bench.follow();
  expect((await entriesOf(bench.folder)).map((entry) => JSON.parse(entry).seq)).toEqual([1, 2]);
});

test("files that were changed or moved are not read, nor those of another key", async () => {
  bench = await openMirrorBench("memory", path, seal);
  const first = await written();
  const second = await written();
  await bench.follow();
  const file = (id: string) => at("task-1", `chk-${id}.json.enc`);
  const whole = readFileSync(file(first.checkpoint_id));
  const changed = Buffer.from(whole);
  changed[60] = changed[60]! ^ 1;
  for (const content of [changed, whole.subarray(0, -1), readFileSync(file(second.checkpoint_id))]) {
    writeFileSync(file(first.checkpoint_id), content);
    expect(await bench.folder.read(TASK, first.checkpoint_id)).toBeNull();
  }
  const foreign = new MirrorFolder(path, async () => newSeal());
  expect(await foreign.read(TASK, second.checkpoint_id)).toBeNull();
  expect(await entriesOf(foreign)).toEqual([]);
  const blind = new MirrorFolder(path);
  await expect(blind.read(TASK, second.checkpoint_id)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await expect(entriesOf(blind)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("the key of the mirror lies wrapped beside the files, and moves to a new root key", async () => {
  bench = await openMirrorBench("memory", path);
  const [old, next] = ["old.key", "next.key"].map((name) => `file:${join(path, name)}`) as [string, string];
  for (const source of [old, next]) newEncryptionKeyFile(source.slice("file:".length));
  const opened = (...sources: string[]) =>
    mirrorSeal(path, sources.length === 0 ? undefined : sources, { setting, env: {} })();
  expect(await opened()).toBeUndefined();
  const made = await opened(old);
  expect(await opened(old)).toEqual(made);
  const secret = made!.key.secret.export();
  expect(filesWith(at(), secret.toString("base64"))).toEqual([]);
  const stored = JSON.parse(readFileSync(at("mirror-key.json"), "utf8"));
  expect(stored.root).toBe((await openRootKeys([old], { setting, env: {} }))[0].id);
  await expect(opened(next)).rejects.toMatchObject({ message: "the root key of a file is not named" });
  expect((await opened(next, old))?.id).toBe(made?.id);
  expect((await opened(next))?.id).toBe(made?.id);
  await expect(opened(old)).rejects.toMatchObject({ exitCode: 78 });
  await expect(opened()).rejects.toMatchObject({ code: "UNAVAILABLE", details: { setting } });
});
