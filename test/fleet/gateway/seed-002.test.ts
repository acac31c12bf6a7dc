/** The operations of seed 002 ("API endpoints") on a real fleet, with the bodies, the status codes and the answers of the seed. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, ownRestClient, type RestClient } from "../../harness/rest-client.ts";

type Json = Record<string, unknown>;

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const ID = /^chk-[0-9a-f-]{36}$/;
const anyText = expect.any(String) as string;

let fleet: TestFleet;
let dispatch: RestClient;
let operator: RestClient;
beforeAll(async () => {
  fleet = await startFleet();
  dispatch = await newRestClient(fleet, { name: "dispatch-001" });
  operator = ownRestClient(fleet);
});
afterAll(() => fleet.stop());

/** A mission with four sorties, two of them completed: 50 %. */
async function mission(id: string): Promise<void> {
  const post = async (path: string, body: Json) => {
    const answer = await dispatch.post(`/missions/${id}${path}`, body);
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200 });
    return answer.body;
  };
  await post("/start", { title: "Implement user authentication" });
  const titles = ["The model", "The session", "The routes", "The tests"];
  const added = await post("/sorties", {
    sorties: titles.map((title) => ({ title, files: ["src/auth.ts"] })),
  });
  for (const sortie of (added.sortie_ids as string[]).slice(0, 2)) {
    await post(`/sorties/${sortie}`, { status: "assigned", assigned_to: "dispatch-001" });
    await post(`/sorties/${sortie}`, { status: "in_progress" });
    await post(`/sorties/${sortie}`, { status: "completed" });
  }
}

async function checkpoint(id: string, more: Json = {}): Promise<{ id: string } & Json> {
  const body = { mission_id: id, trigger: "manual", trigger_details: "Before refactoring", ...more };
  const answer = await dispatch.post("/checkpoints", { ...body, created_by: "dispatch-001" });
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 201 });
  return answer.body.checkpoint as { id: string } & Json;
}

const FULL = {
  id: expect.stringMatching(ID) as string,
  timestamp: expect.stringMatching(ISO) as string,
  trigger: "manual",
  trigger_details: "Before refactoring",
  progress_percent: 50,
  active_locks: [],
  pending_messages: [],
  recovery_context: {
    last_action: anyText,
    next_steps: expect.any(Array) as string[],
    blockers: [],
    files_modified: ["src/auth.ts"],
    mission_summary: expect.stringContaining("Implement user authentication") as string,
    elapsed_time_ms: expect.any(Number) as number,
    last_activity_at: expect.stringMatching(ISO) as string,
  },
  created_by: "dispatch-001",
  version: expect.stringMatching(/^\d+\.\d+\.\d+$/) as string,
};

test("002-api POST /api/v1/checkpoints records a mission", async () => {
  await mission("msn-create");
  const made = await checkpoint("msn-create");
  expect(made).toMatchObject({ ...FULL, mission_id: "msn-create" });
  expect((made.sorties as Json[]).map(({ status }) => status)).toEqual([
    ...["completed", "completed", "pending", "pending"],
  ]);
  // The body has no fence, so the owner acts under the one that it holds.
  expect(await dispatch.post("/tasks/msn-create/take", {})).toMatchObject({ body: { fence: 1 } });
  const failed = await checkpoint("msn-create", {
    trigger: "error",
    trigger_details: "TypeError: x is undefined",
  });
  expect(failed).toMatchObject({ trigger: "error" });
  expect((failed.recovery_context as Json).blockers).toEqual([
    expect.stringContaining("x is undefined") as string,
  ]);
});

test("002-api POST /api/v1/checkpoints refuses another author, a trigger of the fleet and an unknown mission", async () => {
  await mission("msn-refused");
  const post = (more: Json) => dispatch.post("/checkpoints", { mission_id: "msn-refused", ...more });
  expect(await post({ created_by: "dispatch-002" })).toMatchObject({ status: 403 });
  expect(await post({ trigger: "progress" })).toMatchObject({
    status: 400,
    body: { fields: [{ path: "trigger", expected: "manual, error or compaction" }] },
  });
  expect(await post({ mission_id: "msn-none" })).toMatchObject({ status: 404 });
});

test("US-304 002-api POST /api/v1/checkpoints with the trigger compaction makes the mission recoverable", async () => {
  await mission("msn-compacted");
  const { id } = await checkpoint("msn-compacted", {
    trigger: "compaction",
    trigger_details: "The context is full",
  });
  const { body } = await dispatch.get("/missions/msn-compacted");
  expect(body).toMatchObject({ silence: { checkpoint_id: id.replace("chk-", "") } });
  const metrics = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
  expect(metrics).toMatch(/^fleet_missions_silent_total(\{.*\})? 1$/m);
});

test("002-api POST /api/v1/checkpoints with an Idempotency-Key writes once", async () => {
  await mission("msn-once");
  const body = { mission_id: "msn-once", trigger: "manual", trigger_details: "Once" };
  const first = await dispatch.post("/checkpoints", body, { "idempotency-key": "once-1" });
  const second = await dispatch.post("/checkpoints", body, { "idempotency-key": "once-1" });
  expect(first).toMatchObject({ status: 201, body: { replayed: false } });
  expect(second).toMatchObject({ status: 201, body: { replayed: true } });
  expect((second.body.checkpoint as Json).id).toBe((first.body.checkpoint as Json).id);
});

test("002-api GET /api/v1/checkpoints lists those of a mission, newest first, with their number", async () => {
  await mission("msn-list");
  const made: string[] = [];
  for (const trigger_details of ["One", "Two"])
    made.unshift((await checkpoint("msn-list", { trigger_details })).id);
  // The two completed sorties have reached the milestones of 25 and 50 %.
  const whole = await dispatch.get("/checkpoints?mission_id=msn-list&limit=10");
  expect(whole).toMatchObject({ status: 200, body: { total: 4 } });
  const listed = whole.body.checkpoints as Json[];
  expect(listed.map(({ id }) => id).slice(0, 2)).toEqual(made);
  expect(listed.map(({ trigger, progress_percent }) => [trigger, progress_percent])).toEqual([
    ...[
      ["manual", 50],
      ["manual", 50],
      ["progress", 50],
      ["progress", 25],
    ],
  ]);
  expect(listed[0]).toEqual({
    id: made[0],
    mission_id: "msn-list",
    timestamp: expect.stringMatching(ISO) as string,
    ...{ trigger: "manual", trigger_details: "Two", progress_percent: 50 },
  });
  const page = await dispatch.get("/checkpoints?mission_id=msn-list&limit=3");
  expect(page.body).toMatchObject({ total: 4, cursor: anyText });
  const rest = await dispatch.get(`/checkpoints?mission_id=msn-list&limit=3&cursor=${page.body.cursor}`);
  expect(rest.body).toMatchObject({ total: 4, checkpoints: [{ progress_percent: 25 }] });
});

test("002-api GET /api/v1/checkpoints/:id answers with the full checkpoint", async () => {
  await mission("msn-get");
  const made = await checkpoint("msn-get");
  const found = await dispatch.get(`/checkpoints/${made.id}`);
  expect(found).toMatchObject({ status: 200, body: { ...FULL, mission_id: "msn-get" } });
  // The record of the fleet is there too, and alone in the form that its hash covers.
  expect(found.body).toMatchObject({ metadata: { task_id: "msn-get" }, fleet: { mission_id: "msn-get" } });
  expect((await dispatch.get(`/checkpoints/${made.id}?as_stored=true`)).body).not.toHaveProperty("sorties");
  const tag = found.headers.get("etag") ?? "";
  expect((await dispatch.get(`/checkpoints/${made.id}`, { "if-none-match": tag })).status).toBe(304);
});

test("002-api POST /api/v1/checkpoints/:id/recover restores the mission", async () => {
  await mission("msn-recover");
  const made = await checkpoint("msn-recover");
  const sorties = async () => (await dispatch.get("/missions/msn-recover/sorties")).body.sorties as Json[];
  const third = (await sorties())[2]?.sortie_id as string;
  const later = { status: "assigned", assigned_to: "dispatch-001" };
  expect(await dispatch.post(`/missions/msn-recover/sorties/${third}`, later)).toMatchObject({ status: 200 });
  const body = { dry_run: true, agent_id: "dispatch-001" };
  const preview = await dispatch.post(`/checkpoints/${made.id}/recover`, body);
  expect(preview).toMatchObject({ status: 200, body: { success: true, dry_run: true } });
  expect(preview.body.changes).toEqual([{ sortie_id: third, status_from: "assigned", status_to: "pending" }]);
  expect((await sorties())[2]).toMatchObject({ status: "assigned" });
  const done = await dispatch.post(`/checkpoints/${made.id}/recover`, { ...body, dry_run: false });
  expect(done).toMatchObject({
    status: 200,
    body: {
      success: true,
      recovery_context: FULL.recovery_context,
      restored: { sorties: 4, locks: 0, messages: 0 },
    },
  });
  expect((await sorties())[2]).toMatchObject({ status: "pending", assigned_to: null });
  expect(await operator.post(`/checkpoints/${made.id}/recover`, body)).toMatchObject({ status: 403 });
});

test("002-api DELETE /api/v1/checkpoints/:id answers with 204 and no content", async () => {
  await mission("msn-delete");
  const made = await checkpoint("msn-delete");
  for (const trigger_details of ["One", "Two", "Three"]) await checkpoint("msn-delete", { trigger_details });
  expect(await operator.send("DELETE", `/checkpoints/${made.id}`)).toMatchObject({
    status: 204,
    body: undefined,
  });
  expect((await dispatch.get("/checkpoints?mission_id=msn-delete")).body).toMatchObject({ total: 5 });
});

test("002-api POST /api/v1/checkpoints/prune removes what the body says, and tells what it was", async () => {
  await mission("msn-prune");
  const first = await checkpoint("msn-prune");
  // Retention keeps a hundred of a mission; two milestones and the first are older than these.
  for (let i = 0; i < 8; i += 1) await Promise.all(Array.from({ length: 13 }, () => checkpoint("msn-prune")));
  const body = { older_than_days: 7, keep_per_mission: 3, mission_id: "msn-prune" };
  const preview = await operator.post("/checkpoints/prune", { ...body, dry_run: true });
  expect(preview).toMatchObject({ status: 200, body: { deleted: 0, freed_bytes: 0 } });
  const pruned = await operator.post("/checkpoints/prune", { ...body, dry_run: false });
  expect(pruned).toMatchObject({ status: 200, body: { deleted: 7, details: preview.body.details } });
  expect(pruned.body.freed_bytes).toBeGreaterThan(1_000);
  expect(pruned.body.details).toContainEqual(
    expect.objectContaining({ id: first.id, mission_id: "msn-prune" }),
  );
  expect((await dispatch.get("/checkpoints?mission_id=msn-prune")).body).toMatchObject({ total: 100 });
}, 90_000);
