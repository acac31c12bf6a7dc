// The reader on a real bus and a real store on disk: every query, its refusals, and its updates of the index.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { start } from "../../../services/reader/reader.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { decodeBody, encodeBody } from "../../../shared/integrity/wire.ts";
import { ARTIFACT_OPS } from "../../../shared/protocol/artifact-ops.ts";
import type { ErrorBody } from "../../../shared/protocol/errors.ts";
import {
  ALERT_OPS,
  type AnsweredOp,
  ESIGN_QUERY_OPS,
  OFFER_OPS,
  QUERY_OPS,
  QUEUE_OPS,
  type QueryOp,
  SCRUB_OPS,
} from "../../../shared/protocol/operations.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import type { QueryResults } from "../../../shared/protocol/queries.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { readOutbox } from "../../../shared/records/outbox/outbox.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { initiate } from "../../harness/records/handoffs.ts";
import {
  create,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../harness/records/records.ts";
import { noteFailure } from "../../harness/records/recoveries.ts";
import { flip } from "../../shared/records/search/corpus.ts";

interface Answered {
  readonly status: string;
  readonly result: unknown;
  readonly error: ErrorBody;
}

let nats: TestNats;
let bus: Bus;
let bench: TestRecords;
let metrics: Metrics;
let stops: Stop[];

async function startReader(instance: string): Promise<Stop> {
  const { store, format } = bench;
  const config = { agentTypes: [], policies: DEFAULT_POLICIES };
  const leases = createLeaderLeases(store, instance, Date.now);
  const own = { instance, leases, config, disk: unguardedDisk };
  const parts = { log: testLog, metrics, clock: systemClock, bus, store, format, ...own };
  const stop = await start(parts);
  stops.push(stop);
  return async () => {
    stops = stops.filter((one) => one !== stop);
    await stop();
  };
}

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
});

afterAll(async () => {
  await bus.close();
  await nats.stop();
});

beforeEach(async () => {
  stops = [];
  bench = await openTestRecords("lmdb");
  metrics = createMetrics();
  await startReader("reader-1");
});

afterEach(async () => {
  for (const stop of stops) await stop();
  await bench.close();
});

async function request(
  subject: string,
  body: Uint8Array,
  contentType: string = CONTENT_TYPES.json,
): Promise<Answered> {
  const headers = { [HEADERS.contentType]: contentType };
  const answer = await bus.request(subject, { body, headers }, { timeoutMs: 5_000 });
  // The default is JSON.
  expect(answer.headers.get(HEADERS.contentType) ?? CONTENT_TYPES.json).toBe(contentType);
  return decodeBody(answer.body, contentType) as Answered;
}

const ask = (op: QueryOp, query: object = {}) =>
  request(SUBJECTS.query("default", "agent-1", op), encodeBody(query, CONTENT_TYPES.json));

async function result<Op extends AnsweredOp>(op: Op, query: object = {}): Promise<QueryResults[Op]> {
  const answer = await ask(op, query);
  expect(answer.error).toBeUndefined();
  return answer.result as QueryResults[Op];
}

const idsOf = (page: QueryResults["search"] | QueryResults["history"]) =>
  page.checkpoints.map(({ metadata }) => metadata.checkpoint_id);

const OTHERS = [
  "diagnose",
  "events",
  ...SCRUB_OPS,
  ...QUEUE_OPS,
  ...ALERT_OPS,
  ...OFFER_OPS,
  ...ARTIFACT_OPS,
  "tenant_audit",
  "access_record",
  "turn_event",
  "prunable",
  "holds",
  "shreds",
  "shred_certificate",
  "signing_keys",
  "key_rotate",
  "key_revoke",
  "encryption_rotate",
  ...ESIGN_QUERY_OPS,
  "audit_log",
  "audit_proof",
  "audit_anchors",
  "export_record",
  "tenant_audit_proof",
  "access_log",
  "access_blocks",
  "denial_record",
  "mission_records",
  "tasks",
  "missions",
  "mission",
  "sorties",
  "recovery_context",
  "resume_preview",
  "locks",
  "mailbox",
  "messages",
] as const;

describe("queries", () => {
  test("each has the result that the protocol names", async () => {
    const { repository } = bench;
    const failing = { task: "task-2", agent: "agent-3" };
    await send(repository, "take", {}, failing);
    const zero = await create(repository, { ...failing, fence: 1 });
    await noteFailure(repository, failing.task);
    const one = await create(repository, { agent: "agent-1" });
    await finalize(repository, one.checkpoint_id);
    const two = await create(repository, {
      agent: "agent-2",
      checkpoint: input({ goal: "fix the parser" }),
    });
    const { handoff_id, position: wait_for } = await initiate(repository, { task: "task-1" });
    const ids = [two.checkpoint_id, one.checkpoint_id];

    const answers = {
      search: await result("search", { wait_for }),
      get: await result("get", { checkpoint_id: `chk-${one.checkpoint_id}`, version: 1 }),
      latest: await result("latest", { task_id: "task-1" }),
      history: await result("history", { task_id: "task-1", order: "oldest" }),
      by_agent: await result("by_agent", { agent_id: "agent-2" }),
      task: await result("task", { task_id: "task-1" }),
      audit: await result("audit", { task_id: "task-1", from_seq: 2 }),
      handoff: await result("handoff", { task_id: "task-1" }),
      handoffs: await result("handoffs", { state: "requested" }),
      recovery_point: await result("recovery_point", { task_id: "task-1", before: two.checkpoint_id }),
      recoveries: await result("recoveries", { state: "waiting" }),
      status: await result("status"),
      index_rebuild: await result("index_rebuild"),
      index_status: await result("index_status"),
      agents: await result("agents"),
    } satisfies {
      // The others have their own tests.
      [Op in Exclude<AnsweredOp, (typeof OTHERS)[number]>]: QueryResults[Op];
    };

    expect([...Object.keys(answers), ...OTHERS].sort()).toEqual([...QUERY_OPS].sort());
    expect(idsOf(answers.search)).toEqual([...ids, zero.checkpoint_id]);
    expect(answers.search.indexed_through >= wait_for).toBe(true);
    expect(answers.get.checkpoint.metadata).toMatchObject({
      checkpoint_id: one.checkpoint_id,
      status: "draft",
    });
    expect(answers.latest.checkpoint?.metadata.checkpoint_id).toBe(two.checkpoint_id);
    expect(idsOf(answers.history)).toEqual([...ids].reverse());
    expect(idsOf(answers.by_agent)).toEqual([two.checkpoint_id]);
    expect(answers.task.task).toMatchObject({ seq: 2, audit_seq: 4, handoff_id });
    expect(answers.audit.entries.map(({ seq }) => seq)).toEqual([2, 3, 4]);
    expect(answers.handoff.handoff).toMatchObject({ handoff_id, state: "requested", to_agent_type: "qa" });
    expect(answers.handoffs).toEqual({ handoffs: [answers.handoff.handoff], corrupt: [] });
    expect(answers.recovery_point).toMatchObject({
      checkpoint: { metadata: { checkpoint_id: one.checkpoint_id } },
      reason: null,
      passed_over: [],
      owner: null,
      offer: { agent_type: "implementation", is_known: true, max_attempts: 3, deadline_ms: 60_000 },
    });
    expect(answers.recoveries.tasks).toMatchObject([
      { task_id: "task-2", recovery: { state: "waiting", failure: { agent_id: "agent-3" } } },
    ]);
    expect(answers.status).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      store: { engine: "lmdb", ok: true },
      bus: { ok: true, server_version: expect.stringMatching(/^2\./) },
      index: { state: "ready" },
      outbox: { depth: 7 },
      counts: { tasks: 2, checkpoints: 3 },
    });
    expect(answers.index_rebuild).toMatchObject({ total: 3 });
  });

  test("tasks are listed by their agents", async () => {
    await create(bench.repository, { agent: "agent-2" });
    const { task } = await result("task", { task_id: "task-1" });
    const listed = { tasks: [{ ...task, progress_percent: null }], corrupt: [] };
    expect(await result("tasks", { agent_id: "agent-2" })).toEqual(listed);
    expect(await result("tasks", { agent_id: "agent-3" })).toEqual({ tasks: [], corrupt: [] });
  });

  test("a scrub can be requested, and before it there are no findings", async () => {
    const asked = await result("scrub_start");
    expect(asked).toMatchObject({ current: null, last: null, requested_pass: 1, by: null });
    expect(await result("scrub_status")).toEqual(asked);
    expect(await result("scrub_findings")).toEqual({ findings: [] });
  });

  test("the acts of operators are in the chain of their tenant, each once", async () => {
    expect(await result("tenant_audit")).toEqual({ head: null, entries: [], more: false });
    for (const op of ["scrub_start", "scrub_start", "index_rebuild", "index_rebuild"] as const)
      await result(op);
    const { head, entries, more } = await result("tenant_audit");
    const acts = entries.map(({ entry }) => JSON.parse(entry) as unknown);
    const actor = { id: "agent-1", type: "agent" };
    expect(acts).toMatchObject([
      { action: "scrub_start", actor, seq: 1 },
      { action: "index_rebuild", actor, seq: 2 },
    ]);
    expect({ head, more }).toEqual({ head: { seq: 2, hash: entries[1]!.hash }, more: false });
  });

  test("acts with credentials are recorded in the order of their report, each once", async () => {
    const credentials = `U${"A".repeat(55)}`;
    const act = { id: credentials, role: "agent", name: "coder" };
    const [issue, revoke] = [
      { ...act, act: "issue" },
      { ...act, act: "revoke" },
    ];
    expect(await result("access_record", { acts: [issue, issue] })).toEqual({ recorded: 1 });
    expect(await result("access_record", { acts: [issue, revoke] })).toEqual({ recorded: 1 });
    const { entries } = await result("tenant_audit");
    const subject = { credentials, role: "agent", name: "coder" };
    expect(entries.map(({ entry }) => JSON.parse(entry) as unknown)).toMatchObject([
      { action: "credentials_issue", subject, actor: { id: "agent-1" } },
      { action: "credentials_revoke", subject, actor: { id: "agent-1" } },
    ]);
  });

  test("a query in MessagePack is answered in MessagePack", async () => {
    const { checkpoint_id } = await create(bench.repository);
    const body = encodeBody({ checkpoint_id }, CONTENT_TYPES.msgpack);
    const answer = await request(SUBJECTS.query("default", "agent-1", "get"), body, CONTENT_TYPES.msgpack);
    expect(answer).toMatchObject({ status: "ok", result: { checkpoint: { metadata: { checkpoint_id } } } });
  });

  test.each<{ op: QueryOp; query: object; path: string }>([
    { op: "search", query: { limit: 0 }, path: "limit" },
    { op: "search", query: { limit: 1e9 }, path: "limit" },
    { op: "history", query: { task_id: "task-1", limit: 0 }, path: "limit" },
    { op: "history", query: { task_id: "task-1", limit: 1e9 }, path: "limit" },
    { op: "audit", query: { task_id: "task-1", limit: 1e9 }, path: "limit" },
    { op: "by_agent", query: {}, path: "agent_id" },
    { op: "by_agent", query: { agent_id: "agent-1", cursor: "AAAA" }, path: "cursor" },
    { op: "search", query: { cursor: "AAAA" }, path: "cursor" },
    { op: "scrub_findings", query: { limit: 1e9 }, path: "limit" },
    { op: "scrub_findings", query: { cursor: "AAAA" }, path: "cursor" },
    { op: "search", query: { from: "yesterday" }, path: "from" },
    { op: "search", query: { phase: "sleeping" }, path: "phase" },
    { op: "search", query: { text: "?" }, path: "text" },
    { op: "search", query: { wait_for: "soon" }, path: "wait_for" },
    { op: "get", query: { checkpoint_id: "42" }, path: "checkpoint_id" },
    { op: "access_record", query: { acts: [] }, path: "acts" },
    {
      op: "access_record",
      query: { acts: [{ act: "issue", id: "U", role: "agent", name: "coder" }] },
      path: "acts.0.id",
    },
  ])("$op refuses $query", async ({ op, query, path }) => {
    expect(await ask(op, query)).toMatchObject({
      status: "error",
      error: { code: "INVALID", fields: [{ path }] },
    });
  });

  test("a malformed query is INVALID, and a missing record NOT_FOUND", async () => {
    const unknown = SUBJECTS.query("default", "agent-1", "get").replace(/get$/, "drop_all");
    expect((await request(unknown, Buffer.from("{}"))).error).toMatchObject({
      code: "INVALID",
      fields: [{ path: "op" }],
    });
    expect((await request(SUBJECTS.query("default", "agent-1", "get"), Buffer.from("{"))).error.code).toBe(
      "INVALID",
    );
    expect((await ask("latest", { task_id: "none" })).result).toEqual({ checkpoint: null, passed_over: [] });
    for (const [op, query] of [
      ["get", { checkpoint_id: "00000000-0000-7000-8000-000000000000" }],
      ["task", { task_id: "none" }],
      ["audit", { task_id: "none" }],
    ] as const) {
      expect((await ask(op, query)).error).toMatchObject({ code: "NOT_FOUND", retryable: false });
    }
  });

  test.each(["alerts", "queue_status"] as const)("%s without its stream is UNAVAILABLE", async (op) => {
    expect((await ask(op)).error).toMatchObject({ code: "UNAVAILABLE", details: { bus: "unavailable" } });
  });
});

describe("corruption", () => {
  test("is answered as CORRUPT and announced once, and `latest` falls back and reports it", async () => {
    const { repository, store } = bench;
    const good = await create(repository);
    await finalize(repository, good.checkpoint_id);
    const bad = await create(repository);
    await flip(store, "task-1", bad.checkpoint_id);

    const refused = { code: "CORRUPT", retryable: false, details: { checkpoint_id: bad.checkpoint_id } };
    expect((await ask("get", { checkpoint_id: bad.checkpoint_id })).error).toMatchObject(refused);
    expect((await ask("get", { checkpoint_id: bad.checkpoint_id })).error).toMatchObject(refused);
    const latest = await result("latest", { task_id: "task-1" });
    expect(latest.checkpoint?.metadata.checkpoint_id).toBe(good.checkpoint_id);
    expect(latest.passed_over).toMatchObject([{ checkpoint_id: bad.checkpoint_id }]);

    const options = { label: "test", deadlineMs: 3_000 };
    const events = (
      await store.read(options, (reader) =>
        Promise.all(Array.from({ length: 8 }, (_, partition) => readOutbox(reader, partition, 100))),
      )
    ).flatMap(({ entries }) => entries.map(({ event }) => event));
    expect(events.filter(({ type }) => type === "CHECKPOINT_CORRUPTED")).toMatchObject([
      { data: { checkpointId: bad.checkpoint_id } },
    ]);
    expect(await metrics.checkpointCorruptTotal.get()).toMatchObject({ values: [{ value: 1 }] });
  });

  test("of every checkpoint to fall back to is CORRUPT, so that an operator decides", async () => {
    const { repository, store } = bench;
    const ids = [(await create(repository)).checkpoint_id, (await create(repository)).checkpoint_id];
    for (const id of ids) await flip(store, "task-1", id);
    const { error } = await ask("latest", { task_id: "task-1" });
    expect(error.code).toBe("CORRUPT");
    expect(error.details?.corrupt).toMatchObject([{ checkpoint_id: ids[1] }, { checkpoint_id: ids[0] }]);
  });
});

describe("indexing", () => {
  test("continues in another reader when the leader stops", async () => {
    const first = stops[0]!;
    await startReader("reader-2");
    const one = await create(bench.repository);
    expect(idsOf(await result("search", { wait_for: one.position }))).toHaveLength(1);
    stops = stops.slice(1);
    await first();
    const two = await create(bench.repository);
    expect(idsOf(await result("search", { wait_for: two.position }))).toHaveLength(2);
  });

  test("of a position that is never reached is UNAVAILABLE, and can be retried", async () => {
    const { error } = await ask("search", { wait_for: "ff".repeat(10) });
    expect(error).toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
      details: { indexed_through: "00".repeat(10) },
    });
  });

  test("is ready and complete after a rebuild that was requested over the bus", async () => {
    const commits = [];
    for (let n = 0; n < 5; n += 1) commits.push(await create(bench.repository));
    const wait_for = commits.at(-1)!.position;
    await result("search", { wait_for });
    expect(await result("index_rebuild")).toMatchObject({ total: 5 });
    // On a busy machine the rebuild takes longer than a search waits for it.
    await expect.poll(async () => idsOf(await result("search", { wait_for }))).toHaveLength(5);
    expect(await result("index_status")).toMatchObject({ state: "ready", indexed: 5, behind: 0 });
  });
});
