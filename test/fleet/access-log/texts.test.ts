/** Reads of free text beside facts are in the access log: reasons, notes and details, by queries, pages of events and streams of events. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { input } from "../../harness/records/records.ts";
import { newRestClient, type RestClient } from "../../harness/rest-client.ts";
import { blockTask, CALL, POLL, TEXT } from "./blocked-task.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 240_000;

let fleet: TestFleet;
let operator: FleetClient;
let agent: FleetClient;
let rest: RestClient;

beforeAll(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  operator = await fleet.client("operator-1");
  agent = await fleet.client("coder-1");
  rest = await newRestClient(fleet, { name: "listener-1", role: "observer" });
}, CALLS_MS);
afterAll(() => fleet?.stop());

/** What the log has of a caller's reads, as `operation task`, without repetitions. */
async function readsOf(actor: string): Promise<string[]> {
  const { entries } = await operator.admin.accessLog.list({ actor, limit: 500, deadlineMs: 60_000 });
  const tasks = ({ task_id, task_ids }: (typeof entries)[number]) => task_ids ?? [task_id ?? "none"];
  return [...new Set(entries.flatMap((one) => tasks(one).map((task) => `${one.op} ${task}`)))].sort();
}

/** Reads everything about a task that can have a text. */
async function readAll(reader: FleetClient, taskId: string): Promise<void> {
  await reader.getTask(taskId, CALL);
  await reader.getAudit(taskId, CALL);
  await reader.admin.tasks({ taskId, ...CALL });
  await reader.admin.recoveries(CALL);
  const { alerts } = await reader.admin.listAlerts({ taskId, ...CALL });
  for (const { alert } of alerts) await reader.admin.alert(alert.id, CALL);
}

test("an answer without a text has no entry, and with one it has", { timeout: CALLS_MS }, async () => {
  const handle = await agent.takeTask("plain", CALL);
  await handle.checkpoint(input({ goal: TEXT }), CALL);
  await handle.release(CALL);
  const before = await fleet.client("before-1");
  await readAll(before, "plain");

  const alert = await blockTask(agent, operator);

  const after = await fleet.client("after-1");
  await readAll(after, "blocked");
  // The answer has the note of the first one.
  await after.admin.acknowledgeAlert(alert.id, { deadlineMs: 60_000 });
  const expected = ["alert", "alert_ack", "alerts", "audit", "recoveries", "task", "tasks"];
  await expect
    .poll(() => readsOf("after-1"), POLL)
    .toEqual(expected.map((op) => `query.${op} blocked`).sort());
  // Its reads were before those.
  expect(await readsOf("before-1")).toEqual([]);
});

test("events with a reason are an entry, in a page and in a stream", { timeout: CALLS_MS }, async () => {
  const answer = await fetch(`${fleet.gatewayUrl()}/api/v1/events`, {
    headers: { authorization: `Bearer ${rest.key}`, accept: "text/event-stream" },
  });
  const handle = await agent.takeTask("reasoned", CALL);
  await handle.checkpoint(input({ goal: TEXT }), CALL);
  await handle.handOff({ toAgentType: "qa", reason: TEXT, ...CALL });
  let seen = "";
  const decoder = new TextDecoder();
  for await (const part of answer.body!) {
    seen += decoder.decode(part, { stream: true });
    if (seen.includes(TEXT)) break;
  }
  await expect.poll(() => readsOf("listener-1"), POLL).toEqual(["query.events reasoned"]);
  const pager = await newRestClient(fleet, { name: "pager-1", role: "observer" });
  const pageOf = (task: string) => pager.get(`/events?from=oldest&task_id=${task}`);
  expect(await pageOf("plain")).toMatchObject({ status: 200 });
  expect(await pageOf("reasoned")).toMatchObject({ status: 200 });
  await expect.poll(() => readsOf("pager-1"), POLL).toEqual(["query.events reasoned"]);
});

test("lists that a view reads again and again are one entry with their number", {
  timeout: CALLS_MS,
}, async () => {
  const watched = await agent.takeTask("watched", CALL);
  await watched.checkpoint(input({ goal: TEXT }), CALL);
  await watched.handOff({ toAgentType: "qa", reason: TEXT, ...CALL });
  const failing = await agent.takeTask("watched-too", CALL);
  await failing.checkpoint(input({ goal: TEXT }), CALL);
  const failed = { agent_id: "coder-1", task_id: "watched-too", fence: failing.fence! } as const;
  await agent.reportExit(exitReport({ ...failed, class: "unrecoverable", details: TEXT }));
  const query = { taskId: "watched-too", ...CALL };
  await expect
    .poll(async () => (await operator.admin.listAlerts(query)).alerts.length, POLL)
    .toBeGreaterThan(0);
  const VIEWS = 20;
  const watcher = await fleet.client("watcher-1");
  const began = Date.now();
  for (let i = 0; i < VIEWS; i += 1) {
    await watcher.handoffs({ taskId: "watched", ...CALL });
    await watcher.admin.tasks(query);
    await watcher.admin.listAlerts(query);
  }
  // What is counted is written at the stop.
  await fleet.terminate();
  await fleet.start();
  const minutes = Math.ceil((Date.now() - began) / 60_000);
  const { entries } = await operator.admin.accessLog.list({ actor: "watcher-1", limit: 500, ...CALL });
  for (const op of ["query.handoffs", "query.tasks", "query.alerts"]) {
    const own = entries.filter((one) => one.op === op);
    const reads = own.reduce((sum, { count = 1 }) => sum + count, 0);
    // Each reader writes one at once and one with their number after each minute. A slow machine takes some minutes, and may have asked again.
    expect(own.length, op).toBeLessThanOrEqual(4 * (minutes + 1));
    expect(Math.max(...own.map(({ count = 1 }) => count)), op).toBeGreaterThan(1);
    expect(reads, op).toBeGreaterThanOrEqual(VIEWS);
  }
});

/** The names of the members of a value that have the text. */
function membersWith(value: unknown, text: string, name = ""): string[] {
  if (typeof value === "string") return value.includes(text) ? [name] : [];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) => membersWith(member, text, key));
}

test("events have no text of content but the reasons of handoffs and recoveries", {
  timeout: CALLS_MS,
}, async () => {
  const mission = agent.mission("msn-texts");
  await mission.start({ title: TEXT }, CALL);
  await mission.addSorties([{ sortieId: "one", title: TEXT }], CALL);
  await mission.send({ to: ["coder-1"], subject: TEXT, body: TEXT }, CALL);
  await mission.acquireLock("src/a.ts", { purpose: TEXT, ...CALL });
  const pager = await newRestClient(fleet, { name: "pager-2", role: "observer" });
  const found = new Set<string>();
  const typesOf = async (task: string): Promise<string[]> => {
    const { status, body } = await pager.get(`/events?from=oldest&limit=100&task_id=${task}`);
    expect(status).toBe(200);
    const { events } = body as unknown as { events: { event: { type: string; data: object } }[] };
    for (const { event } of events)
      for (const name of membersWith(event, TEXT)) found.add(`${event.type}.${name}`);
    return events.map(({ event }) => event.type);
  };
  // The event of the last command on each.
  const lastOf = { blocked: "AGENT_FAILED", reasoned: "AGENT_HANDOFF", watched: "AGENT_HANDOFF" };
  const lasts = { ...lastOf, "watched-too": "AGENT_FAILED", "msn-texts": "lock_acquired" };
  for (const [task, last] of Object.entries(lasts))
    await expect.poll(() => typesOf(task), POLL).toContain(last);
  expect([...found]).toEqual(["AGENT_HANDOFF.reason"]);
});
