/** The certificate of a shredding, what is left beside the rows of a task, and a store that fails for one task. */
import { afterEach, expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import type { ShredEvidence } from "../../../../shared/protocol/shred-certificate.ts";
import { encode } from "../../../../shared/records/kv/codec.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { partitionOf } from "../../../../shared/records/outbox/outbox.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { stepShredding } from "../../../../shared/records/retention/shred/shred-sweep.ts";
import { type Store, StoreError } from "../../../../shared/store/store.ts";
import { judgeShred } from "../../../../shared/transfer/shred-evidence.ts";
import { create, send } from "../../../harness/records/records.ts";
import { dump } from "../../../harness/records/rows.ts";
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
  await expect(before).rejects.toMatchObject({ code: "NOT_FOUND" });
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
