/** A checkpoint that people have signed, as HTTP and the SDK answer it: with its signatures, and as the record that is hashed. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { hashOf } from "../../../shared/integrity/seal.ts";
import type { Checkpoint } from "../../../shared/protocol/checkpoint.ts";
import type { SearchResult } from "../../../shared/protocol/checkpoint-pages.ts";
import type { AnsweredOp } from "../../../shared/protocol/operations.ts";
import type { QueryResults } from "../../../shared/protocol/queries.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { administratorBus } from "../../harness/credentials.ts";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { ownRestClient, type RestClient } from "../../harness/rest-client.ts";

const CALLS_MS = 200_000;
let fleet: EsignFleet;
let rest: RestClient;
let bus: Bus;
beforeAll(async () => {
  fleet = await startEsignFleet();
  rest = ownRestClient(fleet.server);
  bus = await administratorBus(fleet.server);
}, CALLS_MS);
afterAll(async () => {
  await bus?.close();
  await fleet?.stop();
});

const tagOf = ({ headers }: { readonly headers: Headers }): string => headers.get("etag") ?? "";
const ADA = { state: "valid", printed_name: "Ada Lovelace", meaning: "approval", zone: "Europe/London" };

async function read(path: string, headers?: Record<string, string>) {
  const answer = await rest.get(path, headers);
  expect(answer, path).toMatchObject({ status: 200 });
  return answer;
}

test("HTTP answers a checkpoint with the signatures of all its versions, and as stored the record alone", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("http");
  const unsigned = await read(`/checkpoints/${id}`);
  expect(unsigned.body).not.toHaveProperty("electronic_signatures");
  await fleet.signedBy(await fleet.newCaller(), "http");

  // The client that has the version does not have its signature.
  const signed = await read(`/checkpoints/${id}`, { "if-none-match": tagOf(unsigned) });
  const own = { ...ADA, checkpoint_id: id, version: 1, newest_version: 1, audit_seq: expect.any(Number) };
  const { electronic_signatures: blocks, ...record } = signed.body;
  expect(blocks).toMatchObject([own]);
  expect(blocks).not.toMatchObject([{ signed: expect.anything() as unknown }]);
  expect(record).toEqual(unsigned.body);
  const known = await rest.get(`/checkpoints/${id}`, { "if-none-match": tagOf(signed) });
  expect(known).toMatchObject({ status: 304, body: undefined });

  const stored = await read(`/checkpoints/${id}?as_stored=true`);
  expect(stored.body).toEqual(unsigned.body);
  expect(hashOf(stored.body as Checkpoint)).toBe((stored.body as Checkpoint).compliance.hash);
  expect(tagOf(stored)).toBe(tagOf(unsigned));

  // The tag names the version as before. A busy fleet may queue the write first, and the same write is answered again.
  const patch = (tag: string, key: string) =>
    rest.send("PATCH", `/checkpoints/${id}`, {
      headers: { "content-type": "application/merge-patch+json", "if-match": tag, "idempotency-key": key },
      body: JSON.stringify({ execution_state: { current_focus: "the parser" } }),
    });
  const patched = async (tag: string, key = uuidv7()) => {
    await expect.poll(async () => (await patch(tag, key)).status, { timeout: 60_000 }).not.toBe(202);
    return patch(tag, key);
  };
  expect(await patched(tagOf(signed))).toMatchObject({ status: 200, body: { version: 2 } });
  expect((await patched(tagOf(signed))).status).toBe(412);
  const changed = await read(`/checkpoints/${id}`);
  expect(changed.body).toMatchObject({
    metadata: { version: 2 },
    other_versions_signatures: [{ ...own, newest_version: 2 }],
  });
  expect(changed.body).not.toHaveProperty("electronic_signatures");
  const first = await read(`/checkpoints/${id}?version=1`);
  expect(first.body).toMatchObject({ electronic_signatures: [{ ...own, newest_version: 2 }] });
  for (const path of ["/tasks/http/checkpoints/latest", "/tasks/http/checkpoints"])
    expect((await read(path)).body, path).toMatchObject({
      electronic_signatures: [{ ...own, newest_version: 2 }],
    });
});

test("a checkpoint of a mission has its signatures beside the members of the seed", {
  timeout: CALLS_MS,
}, async () => {
  const written = async (path: string, body: object, status: number, key = uuidv7()) => {
    const headers = { "idempotency-key": key };
    const write = () => rest.post(path, body, headers);
    // A busy fleet may queue it first, and the same write is answered again.
    await expect.poll(async () => (await write()).status, { timeout: 60_000 }).toBe(status);
    return (await write()).body;
  };
  await written("/missions/msn-http/start", { title: "Sign it" }, 200);
  const key = uuidv7();
  const make = () => written("/checkpoints", { mission_id: "msn-http", trigger: "manual" }, 201, key);
  const { checkpoint: made } = (await make()) as { checkpoint: { id: string } };
  expect(made).not.toHaveProperty("electronic_signatures");
  const { id } = made;
  const others = {
    list: async () => (await read("/checkpoints?mission_id=msn-http")).body,
    preview: async () => (await rest.post(`/checkpoints/${id}/recover`, { dry_run: true })).body,
    sdk: () => fleet.writer.mission("msn-http").previewResume(),
    bus: () => asked("resume_preview", { mission_id: "msn-http" }),
  };
  for (const [label, ask] of Object.entries(others))
    expect(await ask(), label).not.toHaveProperty("electronic_signatures");
  await fleet.signedBy(await fleet.newCaller(), "msn-http");
  for (const [label, ask] of Object.entries(others))
    expect(await ask(), label).toMatchObject({ electronic_signatures: [{ ...ADA, version: 1 }] });
  expect(await make()).toMatchObject({ checkpoint: { id, electronic_signatures: [ADA] } });
  expect((await read(`/checkpoints/${id}`)).body).toMatchObject({
    ...{ id, mission_id: "msn-http" },
    electronic_signatures: [ADA],
  });
});

test("the SDK answers a checkpoint with its signatures, and as stored the record alone", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("sdk");
  const { writer } = fleet;
  expect(await writer.getCheckpoint(id)).not.toHaveProperty("electronic_signatures");
  await fleet.signedBy(await fleet.newCaller(), "sdk");
  for (const found of [await writer.getCheckpoint(id), await writer.getLatestCheckpoint("sdk")])
    expect(found).toMatchObject({ electronic_signatures: [{ ...ADA, version: 1 }] });
  expect(await writer.latest("sdk")).toMatchObject({ electronic_signatures: [ADA] });
  expect(await writer.getCheckpointHistory("sdk")).toMatchObject({ electronic_signatures: [ADA] });
  const stored = await writer.getCheckpoint(id, { asStored: true });
  expect(stored).not.toHaveProperty("electronic_signatures");
  expect(hashOf(stored!)).toBe(stored!.compliance.hash);
});

/** A query as any program sends it over the bus. */
async function asked<Op extends AnsweredOp>(op: Op, params: object): Promise<QueryResults[Op]> {
  const out = { body: Buffer.from(JSON.stringify(params)) };
  const subject = SUBJECTS.query("default", "agent-1", op);
  const { body } = await bus.request(subject, out, { timeoutMs: 60_000 });
  return JSON.parse(Buffer.from(body).toString()).result;
}

test("searches and recovery points have them beside their checkpoints, over HTTP, the SDK and the bus", {
  timeout: CALLS_MS,
}, async () => {
  const id = await fleet.written("found", { goal: "the zebra crossing" });
  await fleet.written("unsigned", { goal: "the zebra crossing" });
  await fleet.signedBy(await fleet.newCaller(), "found");
  const { writer } = fleet;
  const own = { ...ADA, checkpoint_id: id, version: 1, newest_version: 1, audit_seq: expect.any(Number) };
  // The index follows the writes.
  const found = async () => (await writer.searchCheckpoints({ text: "zebra" })).checkpoints.length;
  await expect.poll(found, { timeout: 60_000 }).toBe(2);

  const searches = {
    "/search?text=zebra": await read("/search?text=zebra"),
    "/checkpoints?text=zebra": await read("/checkpoints?text=zebra"),
    "/agents/agent-1/checkpoints": await read("/agents/agent-1/checkpoints?limit=100"),
  };
  const answers = {
    ...Object.fromEntries(Object.entries(searches).map(([path, { body }]) => [path, body])),
    searchCheckpoints: await writer.searchCheckpoints({ text: "zebra" }),
    getCheckpointsByAgent: await writer.getCheckpointsByAgent("agent-1", { limit: 100 }),
    search: await asked("search", { text: "zebra" }),
    by_agent: await asked("by_agent", { agent_id: "agent-1", limit: 100 }),
  } as Record<string, SearchResult>;
  for (const [label, { checkpoints, electronic_signatures: blocks = [] }] of Object.entries(answers)) {
    expect(
      blocks.filter(({ checkpoint_id }) => checkpoint_id === id),
      label,
    ).toMatchObject([own]);
    expect(blocks[0], label).not.toHaveProperty("signed");
    const tasks = checkpoints.map(({ metadata }) => metadata.task_id);
    expect(tasks, label).toEqual(expect.arrayContaining(["found", "unsigned"]));
    for (const one of checkpoints) expect(hashOf(one), label).toBe(one.compliance.hash);
  }

  const points = {
    http: (await read("/tasks/found/recovery")).body,
    sdk: await writer.admin.recoveryPoint("found"),
    bus: await asked("recovery_point", { task_id: "found" }),
  };
  for (const [label, point] of Object.entries(points))
    expect(point, label).toMatchObject({
      checkpoint: { metadata: { checkpoint_id: id } },
      electronic_signatures: [own],
    });
  expect(await writer.admin.findRecoveryPoint("found")).toMatchObject({ electronic_signatures: [own] });
  const preview = await rest.post(`/checkpoints/${id}/recover`, { dry_run: true });
  expect(preview.body).toMatchObject({ preview: { electronic_signatures: [own] } });

  const without = {
    http: (await read("/tasks/unsigned/recovery")).body,
    sdk: await writer.admin.recoveryPoint("unsigned"),
    bus: await asked("recovery_point", { task_id: "unsigned" }),
    point: await writer.admin.findRecoveryPoint("unsigned"),
    search: await writer.searchCheckpoints({ taskId: "unsigned" }),
    searched: (await read("/search?task_id=unsigned")).body,
  };
  for (const [label, answer] of Object.entries(without))
    expect(answer, label).not.toHaveProperty("electronic_signatures");
  expect(without.search.checkpoints).toHaveLength(1);
});

test("an agent writes nothing that looks like a signature of a person", { timeout: CALLS_MS }, async () => {
  await fleet.written("copied");
  await fleet.signedBy(await fleet.newCaller(), "copied");
  const signed = (await fleet.writer.getLatestCheckpoint("copied"))!;
  // A checkpoint that was read is written again, with the signature of the old one.
  const other_versions_signatures = signed.electronic_signatures;
  const { checkpointId } = await fleet.writer.createCheckpoint({
    taskId: "copied",
    checkpoint: { ...signed, other_versions_signatures, metadata: { agent_type: "implementation" } },
  });
  const stored = await expect
    .poll(() => fleet.writer.getCheckpoint(String(checkpointId), { asStored: true }), { timeout: 30_000 })
    .not.toBeNull()
    .then(() => fleet.writer.getCheckpoint(String(checkpointId), { asStored: true }));
  expect(stored).toMatchObject({ execution_state: signed.execution_state });
  for (const name of ["electronic_signatures", "other_versions_signatures"]) {
    expect(stored).not.toHaveProperty(name);
    await expect(
      fleet.writer.updateCheckpoint(String(checkpointId), { [name]: signed.electronic_signatures }),
    ).rejects.toMatchObject({ code: "INVALID", fields: [{ path: `patch.${name}` }] });
  }
});
