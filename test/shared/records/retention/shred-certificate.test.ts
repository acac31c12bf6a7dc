/** The certificate of a shredding, what is left beside the rows of a task, and a store that fails for one task. */
import { afterEach, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import type { ShredEvidence } from "../../../../shared/protocol/shred-certificate.ts";
import { decode, decodeChecked, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { partitionOf } from "../../../../shared/records/outbox/outbox.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { stepShredding } from "../../../../shared/records/retention/shred/shred-sweep.ts";
import { type Store, StoreError } from "../../../../shared/store/store.ts";
import { judgeShred } from "../../../../shared/transfer/shred-evidence.ts";
import { create, send } from "../../../harness/records/records.ts";
import { dump } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { openSignedRecords, type SignedRecords, WRITING } from "../../../harness/records/signed.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";

const [OLGA, PAVEL] = ["human=olga", "human=pavel"];
/** In no other text of the test. */
const CANARY = "quetzalcoatlus";

let bench: SignedRecords;
afterEach(() => bench.close());

async function approved(repository: CheckpointRepository, task: string, checkpoints = 1): Promise<void> {
  for (let n = 0; n < checkpoints; n += 1) await create(repository, { task });
  const body = { reason: "erasure", case: "DSR-42" };
  const { shred } = await send(repository, "shred_request", body, { task, agent: OLGA });
  await send(repository, "shred_approve", { request_seq: shred?.request_seq }, { task, agent: PAVEL });
}

const sweep = (store: Store) =>
  stepShredding({
    ...{ store, incarnation: bench.format.incarnation, service: "writer", policies: DEFAULT_POLICIES },
    now: Date.now,
    guard: async () => {},
    eraseMessages: async () => {},
  });

async function evidenceOf(task: string): Promise<ShredEvidence> {
  const { repository } = bench;
  const certificate = await repository.erasure.certificate("default", { task_id: task });
  const query = { task_id: task, limit: 200, order: "oldest" } as const;
  const { removed = [] } = await repository.history("default", query);
  const checkpoints = removed.map(({ checkpoint_id, version, hash, seq }) => ({
    ...{ checkpoint_id, version, hash, seq },
  }));
  return { ...certificate, checkpoints };
}

test("the certificate names both persons and all checkpoints, and an edited or moved one fails", async () => {
  bench = await openSignedRecords("memory");
  await approved(bench.repository, "a", 25);
  await approved(bench.repository, "b", 2);
  const before = bench.repository.erasure.certificate("default", { task_id: "a" });
  await expect(before).rejects.toMatchObject({
    code: "NOT_FOUND",
    details: { task_id: "a", shred: "approved" },
  });
  expect(await sweep(bench.store)).toMatchObject({ removed: 27, failed: [], kept: [] });
  const [a, b] = [await evidenceOf("a"), await evidenceOf("b")];
  const judged = judgeShred(a, { keyIds: [bench.key.id], revoked: [] });
  expect(judged).toMatchObject({ problem: null, key_id: bench.key.id });
  const { audit_seq: seq, audit_hash: hash } = await bench.repository.task("default", "a");
  expect(judged.statement).toMatchObject({
    ...{ tenant: "default", task: "a", reason: "erasure", case: "DSR-42" },
    ...{ request: { by: OLGA }, approval: { by: PAVEL }, end: { seq, hash }, checkpoints: { count: 25 } },
  });
  const payload = JSON.parse(Buffer.from(a.envelope.payload, "base64").toString()) as object;
  const edited = Buffer.from(JSON.stringify({ ...payload, reason: "other" })).toString("base64");
  const problems = {
    edited: { ...a, envelope: { ...a.envelope, payload: edited } },
    "of another task": { ...b, checkpoints: a.checkpoints },
    "without a checkpoint": { ...a, checkpoints: a.checkpoints.slice(1) },
    "in another order": { ...a, checkpoints: a.checkpoints.toReversed() },
    unsigned: { ...a, envelope: { ...a.envelope, signatures: [] } },
    "with the signature of another": { ...a, envelope: { ...a.envelope, signatures: b.envelope.signatures } },
    "for another purpose": { ...a, envelope: { ...a.envelope, payloadType: "application/json" } },
  };
  for (const [name, value] of Object.entries(problems))
    expect(judgeShred(value, { keyIds: [], revoked: [] }).problem, name).not.toBeNull();
  expect(judgeShred(a, { keyIds: ["0".repeat(64)], revoked: [] }).problem).toBe(
    "it is signed with another key",
  );
  expect(judgeShred(a, { keyIds: [], revoked: [bench.key.id] }).problem).toBe("its key was revoked");
});

test("offers behind many others and sessions with prompts go too, and those of other tasks stay", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw, format } = bench;
  for (const task of ["a", "other"]) await create(repository, { task });
  for (const [session_id, task_id] of [
    ["s1", "a"],
    ["s2", "other"],
  ] as const) {
    const event = { session_id, task_id, vendor: "claude-code", folder: `/src/${task_id}` };
    const prompt = { event: "before_model", at: new Date().toISOString(), activity: { prompt: CANARY } };
    await repository.sessions.turnEvent({ tenant: "default", agent: "agent-1" }, {
      ...event,
      ...prompt,
    } as Parameters<typeof repository.sessions.turnEvent>[1]);
  }
  const prefix = systemKeys.outboxPrefix(partitionOf("default", "a"), format.incarnation);
  const offer = (taskId: string) =>
    encode(
      JSON.stringify({
        type: "HANDOFF_OFFER",
        tenant: "default",
        subject: taskId,
        data: { taskId, prompt: CANARY },
      }),
    );
  for (let page = 0; page < 12; page += 1)
    await raw.transact(WRITING, async (tx) => {
      for (let n = 0; n < 100; n += 1) tx.setStampedKey(prefix, Buffer.from([n]), offer("other"));
    });
  await raw.transact(WRITING, async (tx) => tx.setStampedKey(prefix, new Uint8Array(0), offer("a")));
  const body = { reason: "erasure" };
  const { shred } = await send(repository, "shred_request", body, { task: "a", agent: OLGA });
  await send(repository, "shred_approve", { request_seq: shred?.request_seq }, { task: "a", agent: PAVEL });
  expect(await sweep(bench.store)).toMatchObject({ ended: [{ task: "a" }], failed: [] });
  const left = (await dump(raw)).filter(({ value }) => Buffer.from(value).includes(CANARY));
  expect(left.filter(({ value }) => Buffer.from(value).includes('"taskId":"a"'))).toEqual([]);
  expect(left.filter(({ value }) => Buffer.from(value).includes('"taskId":"other"'))).toHaveLength(1_200);
  // Of the sessions that of the other task is left.
  expect(left.filter(({ value }) => !Buffer.from(value).includes("taskId"))).toHaveLength(1);
});

test("a task for which the store has no time does not keep the others, and the next round tries it again", async () => {
  bench = await openSignedRecords("memory");
  await approved(bench.repository, "a");
  await approved(bench.repository, "b");
  let isFailing = true;
  const slow = wrappedStore(bench.store, async (options, body) => {
    if (isFailing && options.label === "shred_task") {
      isFailing = false;
      throw new StoreError("deadline", "the transaction took too long");
    }
    return bench.store.transact(options, body);
  });
  expect(await sweep(slow)).toMatchObject({ ended: [{ task: "b" }], failed: [{ task: "a" }] });
  expect(await sweep(slow)).toMatchObject({ ended: [{ task: "a" }], failed: [] });
});

test("a session of a shredded task, or one that has left it, brings no content of it back", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  let n = 0;
  const turn = (session_id: string, task_id: string, prompt: string) => {
    n += 1;
    const at = new Date(Date.now() + n).toISOString();
    const event = {
      event: "user_prompt_submit",
      vendor: "codex",
      session_id,
      task_id,
      at,
      activity: { prompt },
    };
    return repository.sessions.turnEvent(
      { tenant: "default", agent: "coder-1" },
      event as Parameters<typeof repository.sessions.turnEvent>[1],
    );
  };
  await turn("moved", "a", CANARY);
  await turn("moved", "b", "another goal");
  await turn("stays", "a", CANARY);
  await approved(repository, "a");
  await turn("stays", "a", CANARY);
  expect(await sweep(bench.store)).toMatchObject({ ended: [{ task: "a" }], failed: [] });
  await turn("late", "a", CANARY);
  const left = (await dump(raw)).filter(({ value }) => Buffer.from(value).includes(CANARY));
  expect(left).toEqual([]);
});

test("damaged tombstones are written again from the trail, and the certificate names their checkpoints", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  const keys = tenantKeys("default");
  const ids: string[] = [];
  for (let n = 0; n < 4; n += 1) ids.push((await create(repository, { task: "a" })).checkpoint_id);
  // Two were removed before the shredding, one by each of its tombstones that is damaged.
  for (const checkpoint_id of ids.slice(0, 2))
    await send(repository, "remove", { checkpoint_id, keep: 1 }, { task: "a", agent: OLGA });
  await approved(repository, "a");
  const before = await repository.history("default", { task_id: "a", limit: 200, order: "oldest" });
  for (const seq of [1, 2])
    await raw.transact(WRITING, async (tx) => {
      const row = Uint8Array.from((await tx.get(keys.tombstone("a", seq)))!);
      row[row.length - 1]! ^= 1;
      tx.set(keys.tombstone("a", seq), row);
    });
  expect(await sweep(bench.store)).toMatchObject({ removed: 3, ended: [{ task: "a" }], failed: [] });
  const evidence = await evidenceOf("a");
  expect(evidence.checkpoints).toHaveLength(5);
  expect(judgeShred(evidence, { keyIds: [bench.key.id], revoked: [] })).toMatchObject({ problem: null });
  const after = await repository.history("default", { task_id: "a", limit: 200, order: "oldest" });
  const repaired = (after.removed ?? []).filter(({ checkpoint_id }) =>
    ids.slice(0, 2).includes(checkpoint_id),
  );
  expect(repaired).toEqual((before.removed ?? []).map((one) => ({ ...one, fallback_id: null })));
  expect((await scrub({ store: bench.store, repository })).findings).toEqual([]);
});

test("a tombstone whose entry is damaged too keeps its task only", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  const keys = tenantKeys("default");
  const { checkpoint_id } = await create(repository, { task: "a" });
  for (let n = 0; n < 3; n += 1) await create(repository, { task: "a" });
  const { audit_seq } = await repository.task("default", "a");
  await send(repository, "remove", { checkpoint_id, keep: 1 }, { task: "a", agent: OLGA });
  await approved(repository, "a");
  await approved(repository, "b");
  const damage = (key: Uint8Array) =>
    raw.transact(WRITING, async (tx) => {
      const row = Uint8Array.from((await tx.get(key))!);
      row[row.length - 1]! ^= 1;
      tx.set(key, row);
    });
  await damage(keys.tombstone("a", 1));
  const entry = keys.audit("a", audit_seq + 1);
  const sound = await raw.read(WRITING, (reader) => reader.get(entry));
  await damage(entry);
  const step = await sweep(bench.store);
  expect(step).toMatchObject({ ended: [{ task: "b" }], failed: [{ task: "a" }] });
  expect(step.failed[0]!.error).toMatchObject({ code: "CORRUPT", details: { seq: 1 } });
  await raw.transact(WRITING, async (tx) => tx.set(entry, sound!));
  expect(await sweep(bench.store)).toMatchObject({ ended: [{ task: "a" }], failed: [] });
});

test("sessions are found by their task: those of an earlier version too, whenever it writes them", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  const keys = tenantKeys("default");
  let n = 0;
  const turn = (agent: string, session_id: string, task_id: string) => {
    n += 1;
    const event = {
      ...{ event: "user_prompt_submit", vendor: "codex", session_id, task_id },
      ...{ at: new Date(Date.now() + n).toISOString(), activity: { prompt: CANARY } },
    };
    return repository.sessions.turnEvent(
      { tenant: "default", agent },
      event as Parameters<typeof repository.sessions.turnEvent>[1],
    );
  };
  for (let i = 0; i < 1_100; i += 1) await turn(`agent-${i}`, "s", "other");
  // Of an earlier version, which has no index.
  const turnBefore = async (task: string) => {
    await turn("old", `s-${task}`, task);
    await raw.transact(WRITING, async (tx) => tx.clear(keys.taskSession(task, "old", `s-${task}`)));
  };
  await turnBefore("a");
  await approved(repository, "a");
  let transactions = 0;
  const counted = wrappedStore(bench.store, (options, body) => {
    if (options.label === "shred_leftovers") transactions += 1;
    return bench.store.transact(options, body);
  });
  const leftovers = async () => {
    const before = transactions;
    expect(await sweep(counted)).toMatchObject({ failed: [], kept: [] });
    return transactions - before;
  };
  const first = await leftovers();
  await turn("new", "s", "b");
  // A session that has moved away is not removed.
  await turn("moved", "s", "b");
  await turn("moved", "s", "other");
  await approved(repository, "b");
  // In an upgrade a service of an earlier version still runs.
  await turnBefore("c");
  await approved(repository, "c");
  const second = await leftovers();
  // All sessions are looked through once for both tasks: three pages, and for each task its offers and its own sessions.
  expect([first, second]).toEqual([5, 7]);
  const left = (await dump(raw)).filter(({ value }) => Buffer.from(value).includes(CANARY));
  expect(left).toHaveLength(1_101);
});

test("the scrub finds a lost, damaged or other certificate, and content that has come back", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  const keys = tenantKeys("default");
  await create(repository, { task: "a" });
  const before = await dump(raw);
  for (const task of ["a", "b"]) await approved(repository, task);
  expect(await sweep(bench.store)).toMatchObject({ ended: [{ task: "a" }, { task: "b" }] });
  const found = async () => {
    const { findings } = await scrub({ store: bench.store, repository });
    return findings
      .filter(({ kind }) => kind === "shredding")
      .map(({ task_id, details }) => [task_id, details]);
  };
  expect(await found()).toEqual([]);
  const [own, other] = ["a", "b"].map((task) => systemKeys.shredCertificate("default", task)) as [
    Uint8Array,
    Uint8Array,
  ];
  const sound = (await raw.read(WRITING, (reader) => reader.get(own)))!;
  const write = (key: Uint8Array, value: Uint8Array | undefined) =>
    raw.transact(WRITING, async (tx) => {
      if (value === undefined) tx.clear(key);
      else tx.set(key, value);
    });
  await write(own, undefined);
  expect(await found()).toEqual([["a", "the certificate of its shredding is lost"]]);
  await write(
    own,
    Uint8Array.from(sound, (byte, i) => (i === sound.length - 1 ? byte ^ 1 : byte)),
  );
  expect(await found()).toEqual([["a", "the certificate of its shredding cannot be read"]]);
  await write(own, (await raw.read(WRITING, (reader) => reader.get(other)))!);
  expect(await found()).toEqual([["a", "the certificate of its shredding differs from the trail"]]);
  const [payload, keyId, signature] = decodeChecked<[Uint8Array, string, Uint8Array]>(sound);
  const edited = Buffer.from(payload);
  edited.write("E", edited.indexOf('"erasure"') + 1);
  await write(own, encodeChecked([edited, keyId, signature]));
  expect(await found()).toEqual([["a", "the signature of the certificate of its shredding does not verify"]]);
  await write(own, sound);
  expect(await found()).toEqual([]);
  // Rows of an older copy of the store, first without the head and then with it.
  const { begin, end } = keys.ofTask("checkpoints", "a");
  const old = before.filter(({ key }) => Buffer.compare(key, begin) >= 0 && Buffer.compare(key, end) < 0);
  for (const { key, value } of old) await write(key, value);
  expect(await found()).toEqual([["a", "content of the shredded task has come back (checkpoints)"]]);
  await write(keys.task("a"), before.find(({ key }) => Buffer.compare(key, keys.task("a")) === 0)!.value);
  expect(await found()).toEqual([
    ["a", "its certificate says that the task was shredded, and its head does not"],
  ]);
});

test("a task that was shredded before there were certificates is no finding, and its date is named", async () => {
  bench = await openSignedRecords("memory");
  const { repository, raw } = bench;
  const keys = tenantKeys("default");
  for (const task of ["old", "new"]) await approved(repository, task);
  expect(await sweep(bench.store)).toMatchObject({ ended: [{ task: "new" }, { task: "old" }] });
  for (const task of ["old", "new"])
    await raw.transact(WRITING, async (tx) => tx.clear(systemKeys.shredCertificate("default", task)));
  // As the earlier version has written its end.
  const { audit_seq: seq, shred } = await repository.task("default", "old");
  const entry = keys.audit("old", seq);
  const facts = JSON.parse(decode<string>((await raw.read(WRITING, (reader) => reader.get(entry)))!));
  expect(facts).toMatchObject({ op: "shred_end", certified: 1 });
  const { certified: _certified, ...before } = facts;
  await raw.transact(WRITING, async (tx) => tx.set(entry, encode(canonicalText(before))));
  const { findings } = await scrub({ store: bench.store, repository });
  const lost = findings.filter(({ kind }) => kind === "shredding");
  expect(lost).toMatchObject([{ task_id: "new", details: "the certificate of its shredding is lost" }]);
  const asked = (task_id: string) => repository.erasure.certificate("default", { task_id });
  await expect(asked("old")).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringContaining("made no certificates") as string,
    details: { task_id: "old", shredded_at: shred?.ended_at },
  });
  await expect(asked("new")).rejects.toMatchObject({ code: "NOT_FOUND", details: { task_id: "new" } });
});
