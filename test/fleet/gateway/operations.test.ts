/** Every operation of the HTTP API, on a real fleet. The last test proves that none is missing here. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { REST_ROUTES } from "../../../shared/protocol/rest/routes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, ownRestClient, type RestClient } from "../../harness/rest-client.ts";
import { REST_STATE as STATE, writeOverRest } from "./rest-checkpoints.ts";

type Json = Record<string, unknown>;

let fleet: TestFleet;
let operator: RestClient;
let agent: RestClient;
beforeAll(async () => {
  fleet = await startFleet({ FLEET_LOG_LEVEL: "info" });
  operator = ownRestClient(fleet);
  agent = await newRestClient(fleet, { name: "coder-1" });
});
afterAll(() => fleet.stop());

const found = async (path: string) => expect(await operator.get(path), path).toMatchObject({ status: 200 });
const write = (task: string, more: Json = {}, by = agent) => writeOverRest(by, task, more);

describe("checkpoints", () => {
  test("createCheckpoint answers with the checkpoint, its place and its tag; getCheckpoint returns it", async () => {
    const answer = await agent.post("/checkpoints", {
      task_id: "create-1",
      agent_type: "implementation",
      execution_state: STATE,
    });
    expect(answer.status).toBe(201);
    const { checkpoint, checkpoint_id: id } = answer.body as { checkpoint: Json; checkpoint_id: string };
    expect(answer.headers.get("location")).toBe(`/api/v1/checkpoints/${id}`);
    expect(checkpoint).toMatchObject({ metadata: { agent_id: "coder-1", task_id: "create-1" } });
    const found = await agent.get(`/checkpoints/${id}`);
    expect(found).toMatchObject({ status: 200, body: checkpoint });
    expect(found.headers.get("etag")).toBe(answer.headers.get("etag"));
    // The id as seed 002 writes it.
    expect((await agent.get(`/checkpoints/chk-${id}`)).body).toEqual(checkpoint);
  });

  test("a known tag is 304; a version is found by its number", async () => {
    const { checkpoint_id: id } = await write("tag-1");
    const { headers } = await agent.get(`/checkpoints/${id}`);
    const again = await agent.get(`/checkpoints/${id}`, { "if-none-match": headers.get("etag") ?? "" });
    expect(again).toMatchObject({ status: 304, body: undefined });
    expect((await agent.get(`/checkpoints/${id}?version=1`)).status).toBe(200);
    expect((await agent.get(`/checkpoints/${id}?version=2`)).status).toBe(404);
  });

  test("updateCheckpoint takes a merge patch; another version than that of If-Match is 412", async () => {
    const { checkpoint_id: id } = await write("update-1");
    const { headers } = await agent.get(`/checkpoints/${id}`);
    const patch = (tag: string) =>
      agent.send("PATCH", `/checkpoints/${id}`, {
        headers: { "content-type": "application/merge-patch+json", "if-match": tag },
        body: JSON.stringify({ execution_state: { current_focus: "the parser" } }),
      });
    const first = await patch(headers.get("etag") ?? "");
    expect(first).toMatchObject({ status: 200, body: { version: 2 } });
    expect(await patch(headers.get("etag") ?? "")).toMatchObject({ status: 412, body: { code: "CONFLICT" } });
    expect(await patch('"other"')).toMatchObject({ status: 412 });
    expect((await agent.get(`/checkpoints/${id}`)).body).toMatchObject({
      execution_state: { current_focus: "the parser" },
    });
  });

  test("finalizeCheckpoint ends a draft for good", async () => {
    const { checkpoint_id: id } = await write("finalize-1");
    const ended = await agent.post(`/checkpoints/${id}/finalize`, { status: "succeeded" });
    expect(ended).toMatchObject({ status: 200, body: { version: 2 } });
    const late = await agent.send("PATCH", `/checkpoints/${id}`, {
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ execution_state: { current_focus: "too late" } }),
    });
    expect(late).toMatchObject({ status: 409, body: { code: "FINALIZED" } });
  });

  test("linkCheckpoint adds a parent", async () => {
    const parent = await write("link-1");
    await write("link-1");
    const child = await write("link-1");
    const answer = await agent.post(`/checkpoints/${child.checkpoint_id}/link`, {
      parent_id: parent.checkpoint_id,
    });
    expect(answer).toMatchObject({ status: 200 });
  });

  test("listCheckpointsOfTask pages by cursor; getLatestCheckpoint is the newest", async () => {
    for (let i = 0; i < 3; i += 1) await write("history-1");
    const first = await agent.get("/tasks/history-1/checkpoints?limit=2");
    const { checkpoints, cursor } = first.body as { checkpoints: Json[]; cursor: string };
    expect(checkpoints).toHaveLength(2);
    const second = await agent.get(`/tasks/history-1/checkpoints?limit=2&cursor=${cursor}`);
    expect(second.body.checkpoints).toHaveLength(1);
    expect(second.body).not.toHaveProperty("cursor");
    const latest = await agent.get("/tasks/history-1/checkpoints/latest");
    expect(latest.body.checkpoint).toEqual(checkpoints[0]);
  });

  test("listCheckpoints, searchCheckpoints and listCheckpointsOfAgent find it, also right after the write", async () => {
    const { position, checkpoint } = await write("search-1", { context_summary: { constraints: ["zebra"] } });
    for (const path of [
      `/search?text=zebra&wait_for=${position}`,
      `/checkpoints?task_id=search-1&wait_for=${position}`,
    ])
      expect((await agent.get(path)).body.checkpoints).toEqual([checkpoint]);
    await expect
      .poll(async () => (await agent.get("/agents/coder-1/checkpoints?limit=100")).body.checkpoints)
      .toContainEqual(checkpoint);
  });
});

describe("retention", () => {
  test("deleteCheckpoint removes one that nothing needs, and only for an operator", async () => {
    const old = await write("delete-1");
    for (let i = 0; i < 3; i += 1) await write("delete-1");
    expect(await agent.send("DELETE", `/checkpoints/${old.checkpoint_id}`)).toMatchObject({ status: 403 });
    expect(await operator.send("DELETE", `/checkpoints/${old.checkpoint_id}`)).toMatchObject({ status: 204 });
    expect([404, 410]).toContain((await agent.get(`/checkpoints/${old.checkpoint_id}`)).status);
    const newest = await write("delete-1");
    expect((await operator.send("DELETE", `/checkpoints/${newest.checkpoint_id}`)).status).toBe(409);
  });

  test("pruneCheckpoints previews in the form of seed 002; retainTask and holdTask keep more", async () => {
    const preview = await operator.post("/checkpoints/prune", {
      older_than_days: 7,
      keep_per_mission: 3,
      mission_id: null,
      dry_run: true,
    });
    expect(preview).toMatchObject({ status: 200, body: { deleted: 0, freed_bytes: 0, details: [] } });
    expect(await operator.post("/checkpoints/prune", { dry_run: false })).toMatchObject({ status: 200 });
    await write("hold-1");
    expect((await operator.post("/tasks/hold-1/retention", { retention_policy: null })).status).toBe(200);
    expect(await operator.post("/tasks/hold-1/holds", { hold: "sec-17" })).toMatchObject({ status: 200 });
    for (const list of ["holds", "shreds"]) expect((await operator.get(`/${list}`)).status).toBe(200);
    for (const act of ["request", "approve", "cancel"])
      expect((await operator.post(`/tasks/hold-1/shred/${act}`, {})).status).toBe(400);
    expect((await operator.get("/tasks/hold-1/shred/certificate")).status).toBe(404);
  });
});

describe("tasks", () => {
  test("takeTask and releaseTask change the owner, and a superseded agent is refused with 409", async () => {
    const rival = await newRestClient(fleet, { name: "coder-2" });
    const taken = await agent.post("/tasks/own-1/take", {});
    expect(taken).toMatchObject({ status: 200, body: { owner: "coder-1", fence: 1 } });
    expect(await rival.post("/tasks/own-1/take", { expected_fence: 1 })).toMatchObject({
      body: { owner: "coder-2", fence: 2 },
    });
    const late = await agent.post("/checkpoints", {
      task_id: "own-1",
      agent_type: "implementation",
      execution_state: STATE,
      fence: 1,
    });
    expect(late).toMatchObject({ status: 409, body: { code: "FENCED", details: { fence: 2 } } });
    expect(await rival.post("/tasks/own-1/release", { fence: 2 })).toMatchObject({ body: { owner: null } });
  });

  test("listTasks and getTask", async () => {
    await write("list-1");
    const { tasks } = (await operator.get("/tasks?task_id=list-1")).body as { tasks: Json[] };
    expect(tasks).toHaveLength(1);
    expect((await agent.get("/tasks/list-1")).body).toMatchObject({ task_id: "list-1" });
    expect((await agent.get("/tasks/none-1")).status).toBe(404);
  });
});

test("startMission to resumeMission; listMissions, getMission, listSorties, previewResumption, getRecoveryContext", async () => {
  const coordinator = await newRestClient(fleet, { name: "dispatch-1" });
  const post = (path: string, body: Json) => coordinator.post(`/missions/msn-1${path}`, body);
  const started = await coordinator.post("/missions/msn-1/start", { title: "Sign in" });
  expect(started).toMatchObject({ status: 200, body: { mission_status: "in_progress" } });
  const added = await post("/sorties", { sorties: [{ title: "The form" }, { title: "The session" }] });
  expect(added).toMatchObject({ status: 200, body: { progress_percent: 0 } });
  const [first] = added.body.sortie_ids as string[];
  const sortie = (body: Json) => post(`/sorties/${first}`, body);
  expect(await sortie({ status: "assigned", assigned_to: "dispatch-1" })).toMatchObject({ status: 200 });
  expect(await sortie({ status: "in_progress" })).toMatchObject({ status: 200 });
  expect(await sortie({ status: "completed" })).toMatchObject({
    status: 200,
    body: { progress_percent: 50 },
  });
  expect(await post("/checkpoints", { note: "half" })).toMatchObject({ status: 200 });
  expect(await post("/update", { description: "with a password" })).toMatchObject({ status: 200 });
  expect((await coordinator.get("/missions/msn-1")).body).toMatchObject({ mission_id: "msn-1" });
  expect((await operator.get("/missions?active=true")).body.missions).toHaveLength(1);
  expect((await operator.get("/missions/msn-1/sorties")).body.sorties).toHaveLength(2);
  expect((await coordinator.get("/missions/msn-1/resume")).body).toMatchObject({ progress_percent: 50 });
  expect((await coordinator.get("/missions/msn-1/recovery-context")).body).toMatchObject({
    recovery_context: { blockers: [] },
  });
  expect(await post("/resume", {})).toMatchObject({ status: 200, body: { progress_percent: 50 } });
});

test("acquireLock, renewLock, listLocks and releaseLock", async () => {
  const coordinator = await newRestClient(fleet, { name: "dispatch-2" });
  const post = (path: string, body: Json) => coordinator.post(`/missions/msn-2${path}`, body);
  expect(await post("/start", { title: "Sign out" })).toMatchObject({ status: 200 });
  const file = { path: "src/form.ts" };
  expect(await post("/locks", file)).toMatchObject({ status: 200, body: { state: "held" } });
  expect(await post("/locks/renew", file)).toMatchObject({ status: 200, body: { state: "held" } });
  expect((await operator.get("/missions/msn-2/locks")).body.locks).toMatchObject([file]);
  expect(await post("/locks/release", file)).toMatchObject({ status: 200, body: { state: "released" } });
});

test("sendMessage, listMessages, readMailbox, acknowledgeMessage, cancelMessage and subscribeMailbox", async () => {
  const coordinator = await newRestClient(fleet, { name: "dispatch-3" });
  const specialist = await newRestClient(fleet, { name: "specialist-3" });
  const stranger = await newRestClient(fleet, { name: "stranger-3" });
  const at = "/missions/msn-3";
  expect(await coordinator.post(`${at}/start`, { title: "Sign up" })).toMatchObject({ status: 200 });
  const events = ["fleet_checkpointed"];
  expect(await coordinator.post(`${at}/mailbox/subscription`, { events })).toMatchObject({
    status: 200,
    body: { events, agent_id: "dispatch-3" },
  });
  const message = { to: ["specialist-3"], subject: "Review the form", body: "before noon" };
  const sent = await coordinator.post(`${at}/messages`, message);
  expect(sent).toMatchObject({ status: 200, body: { state: "queued", missing: ["specialist-3"] } });
  const { message_id } = sent.body;
  const shown = { ...message, message_id, from: "dispatch-3" };
  expect((await specialist.get(`${at}/mailbox`)).body.messages).toMatchObject([shown]);
  expect((await stranger.get(`${at}/messages`)).body.messages).toEqual([]);
  expect((await operator.get(`${at}/messages`)).body.messages).toMatchObject([shown]);
  const acknowledge = `${at}/messages/${message_id}/acknowledge`;
  expect(await stranger.post(acknowledge, {})).toMatchObject({ status: 404 });
  expect(await specialist.post(acknowledge, {})).toMatchObject({ status: 200, body: { state: "delivered" } });
  expect((await specialist.get(`${at}/mailbox`)).body.messages).toEqual([]);
  const cancel = `${at}/messages/${(await coordinator.post(`${at}/messages`, message)).body.message_id}/cancel`;
  expect(await stranger.post(cancel, {})).toMatchObject({ status: 403 });
  expect(await coordinator.post(cancel, {})).toMatchObject({ status: 200, body: { state: "cancelled" } });
  expect((await specialist.get(`${at}/mailbox`)).body.messages).toEqual([]);
  expect(await coordinator.post(`${at}/checkpoints`, {})).toMatchObject({ status: 200 });
  expect((await coordinator.get(`${at}/mailbox`)).body).toMatchObject({
    messages: [{ kind: "event", from: "fleet", subject: "fleet_checkpointed" }],
    subscribed: events,
  });
});

describe("handoffs", () => {
  test("handOffTask, getHandoff, getHandoffOfTask, listHandoffs and cancelHandoff", async () => {
    await write("handoff-1");
    const opened = await agent.post("/tasks/handoff-1/handoff", { to_agent_type: "qa", reason: "tired" });
    expect(opened.status).toBe(200);
    const id = opened.body.handoff_id as string;
    expect((await agent.get(`/handoffs/${id}`)).body).toMatchObject({ handoff_id: id, task_id: "handoff-1" });
    expect((await agent.get("/tasks/handoff-1/handoff")).body).toMatchObject({ handoff_id: id });
    expect((await agent.get("/handoffs?task_id=handoff-1")).body.handoffs).toHaveLength(1);
    expect(await agent.post(`/handoffs/${id}/cancel`, { reason: "rested" })).toMatchObject({
      status: 200,
      body: { state: "cancelled" },
    });
  });

  test("handOffCheckpoint, and acknowledgeHandoff by the next agent", async () => {
    const { checkpoint_id: checkpoint } = await write("handoff-2");
    const next = await newRestClient(fleet, { name: "tester-1" });
    const opened = await agent.post(`/checkpoints/${checkpoint}/handoff`, { to_agent_type: "qa" });
    const id = opened.body.handoff_id as string;
    const state = async () => (await agent.get(`/handoffs/${id}`)).body;
    await expect.poll(async () => (await state()).state).toBe("offered");
    const accepted = await next.post(`/handoffs/${id}/acknowledge`, {
      checkpoint_id: checkpoint,
      agent_type: "qa",
      offer_digest: (await state()).offer_digest,
    });
    expect(accepted).toMatchObject({ status: 200, body: { owner: "tester-1" } });
  });
});

describe("recovery", () => {
  test("getRecoveryPoint, recoverTask and listRecoveries", async () => {
    const { checkpoint } = await write("recover-1");
    expect((await agent.get("/tasks/recover-1/recovery")).body).toMatchObject({
      checkpoint: checkpoint,
      reason: null,
    });
    expect(await agent.post("/tasks/recover-1/recover", {})).toMatchObject({ status: 403 });
    expect(await operator.post("/tasks/recover-1/recover", { reason: "stuck", force: true })).toMatchObject({
      status: 200,
      body: { task_id: "recover-1" },
    });
    await expect
      .poll(async () => JSON.stringify((await operator.get("/recoveries")).body.tasks))
      .toContain("recover-1");
  });

  test("recoverCheckpoint shows what it would do, and does it; only in the name of its caller", async () => {
    const { checkpoint_id: id } = await write("recover-2");
    const preview = await operator.post(`/checkpoints/${id}/recover`, { dry_run: true });
    expect(preview).toMatchObject({ status: 200, body: { success: true, dry_run: true } });
    expect((await agent.get("/tasks/recover-2")).body).toMatchObject({ recovery: null });
    expect(await operator.post(`/checkpoints/${id}/recover`, { agent_id: "coder-9" })).toMatchObject({
      status: 403,
    });
    const done = await operator.post(`/checkpoints/${id}/recover`, { dry_run: false, force: true });
    expect(done).toMatchObject({ status: 200, body: { success: true, recovery: { checkpoint_id: id } } });
  });
});

describe("audit, agents, alerts", () => {
  test("getAudit, proveAudit, getAuditLog, listAuditAnchors, proveTenantAudit, getTenantAudit, listAccess", async () => {
    await write("audit-1");
    expect((await agent.get("/tasks/audit-1/audit")).body).toMatchObject({ entries: [{ seq: 1 }] });
    const proof = async () => (await agent.get("/tasks/audit-1/audit/proof?seq=1")).body;
    await expect.poll(proof, { timeout: 60_000 }).toMatchObject({ task_id: "audit-1", seq: 1 });
    expect((await agent.get("/audit/log?since_size=1")).body).toHaveProperty("consistency");
    for (const at of ["", "/anchors", "/proof", "/access", "/access/blocks"]) await found(`/audit${at}`);
  });

  test("listAgents; restartAgent, askForCheckpoint and restartSession without a runner are 404", async () => {
    expect((await operator.get("/agents")).body).toHaveProperty("listening_since");
    for (const path of ["/agents/none/restart", "/agents/none/inject", "/sessions/none/agent-restart"])
      expect(await operator.post(path)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
  });

  test("listAlerts, getAlert and acknowledgeAlerts", async () => {
    expect((await operator.get("/alerts?acknowledged=false")).body).toHaveProperty("alerts");
    const id = `default/none-1/${uuidv7()}`;
    expect((await operator.get(`/alerts/${encodeURIComponent(id)}`)).status).toBe(404);
    expect((await operator.post("/alerts/acknowledge", { alert_ids: [id] })).status).toBe(404);
  });
});

test("uploadArtifact, getArtifact, downloadArtifact, listArtifacts, listArtifactsOfCheckpoint, and uploads in parts", async () => {
  const hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  expect((await agent.send("PUT", `/artifacts/${hash}`, { body: "abc" })).status).toBe(201);
  expect((await agent.get(`/artifacts/${hash}`)).body).toMatchObject({ sha256: hash, size: 3 });
  const content = { headers: { authorization: `Bearer ${agent.key}` } };
  const answer = await fetch(`${fleet.gatewayUrl()}/api/v1/artifacts/${hash}/content`, content);
  expect(await answer.text()).toBe("abc");
  expect((await agent.get("/artifacts")).body).toMatchObject({ total_bytes: 3 });
  const { checkpoint_id: id } = await write("artifacts-1");
  expect((await agent.get(`/checkpoints/${id}/artifacts`)).body).toEqual({ artifacts: [] });
  const upload_id = uuidv7();
  const claim = { upload_id, sha256: "0".repeat(64), size: 3 };
  expect((await agent.post("/artifacts/uploads", claim)).body).toMatchObject({ stored: false });
  const place = `/artifacts/uploads/${upload_id}`;
  expect((await agent.post(`${place}/parts/0`, { bytes: "YWJj" })).status).toBe(200);
  // While the reader verifies the bytes, the answer is 200 with this state. After a refusal that was lost the upload is gone.
  await expect
    .poll(() => agent.post(`${place}/commit`, { sha256: claim.sha256 }))
    .toSatisfy(({ status, body }) => status === 404 || (status === 400 && body.fields[0].path === "sha256"));
});

test("getEvents answers with a page", async () => {
  expect((await operator.get("/events")).body).toMatchObject({
    events: [],
    cursor: expect.any(String) as string,
  });
});

test("getCaller, getStatus, getQueue, getIndex, rebuildIndex, getScrub, startScrub, listScrubFindings", async () => {
  expect((await agent.get("/caller")).body).toEqual({
    tenant: "default",
    name: "coder-1",
    role: "agent",
    scopes: null,
    expires_at: null,
  });
  for (const path of ["/status", "/queue", "/index", "/scrub", "/scrub/findings"]) await found(path);
  for (const path of ["/index/rebuild", "/scrub"])
    expect(await operator.post(path), path).toMatchObject({ status: 200 });
});

test("listSigningKeys, rotateSigningKeys, revokeSigningKey and rotateEncryption", async () => {
  const [key] = (await agent.get("/keys")).body.keys as { key_id: string }[];
  expect(await agent.post("/keys/rotate")).toMatchObject({ status: 403 });
  expect(await operator.post("/keys/rotate")).toMatchObject({
    status: 200,
    body: { keys: [{ key_id: key?.key_id }] },
  });
  expect(await operator.post(`/keys/${key?.key_id}/revoke`, { reason: "replaced" })).toMatchObject({
    status: 200,
    body: { key: { key_id: key?.key_id, revoked_reason: "replaced" } },
  });
  expect((await operator.post(`/keys/${"0".repeat(64)}/revoke`, { reason: "lost" })).status).toBe(404);
  expect((await operator.post("/encryption/rotate")).status).toBe(409);
});

test("listDeadLetters, retryDeadLetter and dropDeadLetter", async () => {
  expect((await operator.get("/dead-letters")).body).toMatchObject({ letters: [] });
  expect(await operator.post("/dead-letters/999/retry")).toMatchObject({ status: 404 });
  expect(await operator.send("DELETE", "/dead-letters/999")).toMatchObject({ status: 404 });
});

test("every operation but signatures of people (test/fleet/esign) has answered above", async () => {
  const missing = (): string[] => {
    const answered = new Set(
      [...fleet.output().matchAll(/"operation":"(\w+)","status":\d+/g)].map(([, name]) => name),
    );
    return REST_ROUTES.flatMap(({ id, tag }) => (answered.has(id) || tag === "signatures" ? [] : [id]));
  };
  await expect.poll(missing).toEqual([]);
});
