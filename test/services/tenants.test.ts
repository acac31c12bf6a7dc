/** Two tenants share a fleet. No answer to one of them contains a name, an id or a text of the other. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { alertOf } from "../../shared/protocol/alerts.ts";
import { type AnsweredOp, isAnsweredOp, QUERY_OPS, type QueryOp } from "../../shared/protocol/operations.ts";
import { offerConsumer, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { keepFindings } from "../../shared/records/scrub/findings.ts";
import { type InProcessFleet, openInProcessFleet } from "../harness/in-process-fleet.ts";
import { input } from "../harness/records/records.ts";

type Json = Record<string, unknown>;

const POLL = { timeout: 30_000, interval: 50 };

let fleet: InProcessFleet;
/** The ids of each tenant's records. */
const ids: Record<string, Record<string, string>> = {};

beforeAll(async () => {
  fleet = await openInProcessFleet();
  for (const tenant of ["wombat", "quokka"]) await fill(tenant);
}, 60_000);

afterAll(() => fleet?.close());

/** Every record, message and text of the tenant contains the tenant's name. */
async function fill(tenant: string): Promise<void> {
  const agent = `${tenant}-agent`;
  const by = (task: string) => ({ tenant, agent, task: `${tenant}-${task}` });
  const send = async (op: "create" | "take" | "handoff" | "recover", body: Json, task: string) => {
    const answer = await fleet.send(op, { command_id: uuidv7(), ...body }, by(task));
    expect(answer).toMatchObject({ status: "committed" });
    return answer;
  };
  const checkpoint = input({ goal: `${tenant} goal` });
  const owned = await send("create", { checkpoint }, "owned");
  await send("take", {}, "owned");
  await send("create", { checkpoint }, "handed");
  const handoff = await send("handoff", { reason: `${tenant} reason` }, "handed");
  await send("create", { checkpoint }, "failed");
  await send("take", {}, "failed");
  await send("recover", { reason: `${tenant} reason`, force: true }, "failed");
  const lost = {
    command_id: uuidv7(),
    checkpoint_id: uuidv7(),
    parent_ids: [uuidv7()],
    note: `${tenant} note`,
  };
  await fleet.enqueue("link", lost, by("dead"));
  await vi.waitFor(async () => expect(await fleet.depth()).toBe(0), POLL);
  await fleet.records.store.transact({ label: "test", deadlineMs: 5_000, onUnknown: "safe" }, (tx) =>
    keepFindings(tx, [finding(tenant)], { pass: 1, nowMs: Date.now() }),
  );
  const alert = alertOf("COMMAND_DEAD", "warning", {
    tenant,
    task: `${tenant}-owned`,
    occasion: `${tenant}-occasion`,
    nowMs: Date.now(),
    data: { stream: STREAMS.queue, reason: "invalid", commandId: null },
  });
  await fleet.publish(SUBJECTS.alert(tenant, "warning", `${tenant}-owned`), {
    body: Buffer.from(JSON.stringify(alert)),
  });
  const beat = {
    agent_id: agent,
    agent_type: "qa",
    state: "working",
    host: `${tenant}-host`,
    sent_at: new Date().toISOString(),
  };
  fleet.bus.publish(SUBJECTS.heartbeat(tenant, agent), { body: Buffer.from(JSON.stringify(beat)) });
  ids[tenant] = {
    checkpoint: String(owned.checkpoint_id),
    handoff: String(handoff.handoff_id),
    lost: lost.command_id,
    position: String(handoff.position),
  };
}

const finding = (tenant: string) => ({
  tenant,
  task: `${tenant}-damaged`,
  kind: "audit" as const,
  checkpoint_id: null,
  version: null,
  details: `${tenant} details`,
  quarantined: false,
});

/** `diagnose` shows no records: test/fleet/doctor/doctor.test.ts. */
type ReaderOp = Exclude<AnsweredOp, "diagnose">;

const SESSION_START = {
  session_id: "s-1",
  event: "session_start",
  at: "2026-01-24T10:00:00.000Z",
  vendor: "claude-code",
  folder: "/work",
};

const evidenceOf = (task_id: string) => ({
  audit_log: [{}, { since_size: 0 }],
  audit_proof: [{ task_id }],
  audit_anchors: [{}],
  tenant_audit_proof: [{}],
  ...{ access_log: [{}, { task_id }], access_blocks: [{}] },
  denial_record: [{ denials: [{ at: "2026-01-24T10:00:00.000Z", op: "http.getTask", reason: "scope" }] }],
  export_record: [{ manifest: "0".repeat(64), tasks: 1, entries: 1 }],
});

const esignBodies = (own: string, task_id: string) => ({
  signatures: [{ task_id }],
  signing_request: [{ task_id }],
  signers: [{}],
  signer_revoke: [{ issuer: `https://${own}.example`, subject: own, reason: "left" }],
  passkey_revoke: [{ passkey_id: "0".repeat(64), reason: "lost" }],
});

/** The bodies with which a tenant asks each query about everything that it may see, and about records of the other. */
function bodies(own: string, other: string): Readonly<Record<ReaderOp, readonly Json[]>> {
  const task_id = `${own}-owned`;
  const { checkpoint, handoff, position } = ids[other]!;
  const oneTask = [{ task_id }];
  const delivery = `$JS.ACK.${STREAMS.offers}.${offerConsumer(other, "qa")}.1.1.1.1700000000000000000.0`;
  return {
    get: [{ checkpoint_id: ids[own]!.checkpoint }, { checkpoint_id: checkpoint }],
    latest: oneTask,
    history: oneTask,
    by_agent: [{ agent_id: `${own}-agent`, wait_for: position }],
    search: [{ wait_for: position }, {}],
    task: oneTask,
    audit: oneTask,
    handoff: [{ handoff_id: ids[own]!.handoff }, { handoff_id: handoff }],
    handoffs: [{}],
    recovery_point: [...oneTask, { task_id, checkpoint_id: checkpoint }],
    tasks: [{}],
    ...{ holds: [{}], shreds: [{}], shred_certificate: [{ task_id }] },
    recoveries: [{}],
    status: [{}],
    index_rebuild: [{}],
    index_status: [{}],
    agents: [{}],
    events: [{ from: "oldest" }, {}],
    tenant_audit: [{}],
    access_record: [
      { acts: [{ act: "issue", id: `U${"A".repeat(55)}`, role: "agent", name: `${own}-agent` }] },
    ],
    missions: [{}, { active: true }],
    mission: [{ mission_id: task_id }, {}],
    sorties: [{ mission_id: task_id }],
    recovery_context: [{ mission_id: task_id }],
    locks: [{ mission_id: task_id }],
    mailbox: [{ mission_id: task_id, all: true }],
    messages: [{ mission_id: task_id }],
    mission_records: [{ mission_id: task_id }, { mission_id: task_id, after_seq: 0 }],
    resume_preview: [{ mission_id: task_id, checkpoint_id: checkpoint }],
    turn_event: [SESSION_START],
    prunable: [{}, oneTask[0]!],
    artifact_begin: [{ upload_id: uuidv7(), sha256: "0".repeat(64), size: 1 }],
    artifact_part: [{ upload_id: uuidv7(), part: 0, bytes: "AA==" }],
    artifact_commit: [{ upload_id: uuidv7(), sha256: "0".repeat(64) }],
    artifact: [{ sha256: "0".repeat(64) }],
    artifact_read: [{ sha256: "0".repeat(64), part: 0 }],
    artifacts: [{}],
    offer_settle: [{ delivery, outcome: "done" }],
    scrub_status: [{}],
    scrub_start: [{}],
    scrub_findings: [{}],
    ...evidenceOf(task_id),
    ...{ signing_keys: [{}], key_rotate: [{}], encryption_rotate: [{}] },
    ...esignBodies(own, task_id),
    key_revoke: [{ key_id: "0".repeat(64), reason: "lost" }],
    queue_status: [{}],
    dead_list: [{}],
    dead_retry: [{ seq: 2 }, { seq: 99 }],
    dead_drop: [{ seq: 2 }],
    alerts: [{}],
    alert: [{ alert_id: `${own}/${own}-owned/${own}-occasion` }],
    alert_ack: [{ alert_ids: [`${own}/${own}-owned/${own}-occasion`] }],
  };
}

// The offers of another tenant are covered by test/services/reader/offers.test.ts.
test.each(QUERY_OPS.filter(isAnsweredOp).filter((op) => op !== "diagnose"))(
  "the query %s of one tenant shows nothing of the other",
  async (op) => {
    const [own, other] = ["wombat", "quokka"];
    for (const body of bodies(own, other)[op]) {
      const answer = await fleet.ask(op, body, own);
      const text = JSON.stringify(answer);
      // An access log has the ids that its own tenant has asked for, above.
      const named = op.startsWith("access_") ? [] : [ids[other]!.checkpoint!, ids[other]!.handoff!];
      const secrets = [other, ...named, ids[other]!.lost!];
      const asked = JSON.stringify(body);
      const seen = secrets.filter((secret) => text.includes(secret) && !asked.includes(secret));
      expect(seen, text).toEqual([]);
      // A record of the other tenant is answered as one that does not exist.
      for (const id of [ids[other]!.checkpoint!, ids[other]!.handoff!].filter((one) => asked.includes(one))) {
        const absent = uuidv7();
        const unknown = JSON.stringify(
          await fleet.ask(op, JSON.parse(asked.replace(id, absent)) as Json, own),
        );
        expect(unknown.replaceAll(absent, id)).toBe(text);
      }
    }
  },
);

test("the acts of a tenant are in its own audit chain only", async () => {
  const acts = async (tenant: string) => {
    const { entries } = (await fleet.ask("tenant_audit", {}, tenant)).result as {
      entries: { entry: string }[];
    };
    return entries.map(({ entry }) => JSON.parse(entry) as Json);
  };
  const alert_id = "quokka/quokka-owned/quokka-occasion";
  const repeated = [alert_id, alert_id];
  expect(await fleet.ask("alert_ack", { alert_ids: repeated }, "quokka")).toMatchObject({ status: "ok" });
  expect(await fleet.ask("alert_ack", { alert_ids: [alert_id] }, "quokka")).toMatchObject({ status: "ok" });
  const acknowledged = (await acts("quokka")).filter(({ action }) => action === "alert_ack");
  expect(acknowledged).toMatchObject([{ tenant: "quokka", actor: { type: "agent" }, subject: { alert_id } }]);
  expect(JSON.stringify(await acts("koala"))).not.toContain("quokka");
});

const SHOWN: readonly QueryOp[] = [
  "tasks",
  "handoffs",
  "recoveries",
  "agents",
  "scrub_findings",
  "dead_list",
  "alerts",
  "search",
];

test.each(SHOWN)("the query %s shows a tenant its own records", async (op) => {
  const text = async () => JSON.stringify(await fleet.ask(op, {}, "quokka"));
  await expect.poll(text, POLL).toContain("quokka-");
});

test("a tenant can neither retry nor drop the dead letter of another, and counts its own only", async () => {
  const dead = async (tenant: string) => (await fleet.ask("queue_status", {}, tenant)).result;
  expect(await dead("quokka")).toMatchObject({ dead: 1 });
  expect(await dead("koala")).toMatchObject({ dead: 0 });
  const { letters } = (await fleet.ask("dead_list", {}, "quokka")).result as { letters: { seq: number }[] };
  for (const op of ["dead_retry", "dead_drop"] as const) {
    expect(await fleet.ask(op, { seq: letters[0]!.seq }, "koala")).toMatchObject({
      error: { code: "NOT_FOUND" },
    });
  }
  const alertId = "quokka/quokka-owned/quokka-occasion";
  expect(await fleet.ask("alert", { alert_id: alertId }, "koala")).toMatchObject({
    error: { code: "NOT_FOUND" },
  });
  expect(await fleet.ask("alert_ack", { alert_ids: [alertId] }, "koala")).toMatchObject({ status: "error" });
});

test("a task of the same name in another tenant is another task", async () => {
  const answer = await fleet.ask("task", { task_id: "quokka-owned" }, "wombat");
  expect(answer).toMatchObject({ error: { code: "NOT_FOUND" } });
});

test("a dead letter of an earlier version, whose subject names no tenant, belongs to the tenant of its command", async () => {
  const headers = { "Fleet-Dead-Subject": "fleet.q.0.koala.koala-agent.koala-task.create" };
  await fleet.publish("fleet.dead.FLEET_QUEUE.invalid.koala-task", { body: Buffer.from("{}"), headers });
  expect(await fleet.ask("dead_list", {}, "koala")).toMatchObject({
    result: {
      letters: [{ stream: "FLEET_QUEUE", reason: "invalid", tenant: "koala", task_id: "koala-task" }],
    },
  });
});
