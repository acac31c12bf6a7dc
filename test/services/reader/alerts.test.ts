/**
 * The alerts that a reader lists from a real stream and a real store: pages, filters, acknowledgements,
 * resolved alerts, other tenants, malformed messages.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { start } from "../../../services/reader/reader.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import type { AlertPage, AlertState } from "../../../shared/protocol/alert-queries.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import type { Severity } from "../../../shared/protocol/severity.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { clearExpiredAcks, readAcks } from "../../../shared/records/task/alert-acks.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { connect as connectSdk, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, send, type TestRecords } from "../../harness/records/records.ts";
import { sightingOf } from "../../harness/records/recoveries.ts";
import { SECRETS } from "../../shared/protocol/secrets.ts";

const DAY_MS = 86_400_000;

let nats: TestNats;
let bus: Bus;
let bench: TestRecords;
let stop: () => Promise<void>;
const clients: FleetClient[] = [];
const metrics = createMetrics();
let tenants = 0;
/** A new tenant for each test, because alerts are kept. */
let tenant: string;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  bench = await openTestRecords("lmdb");
  const { store, format } = bench;
  const config = { agentTypes: [], policies: DEFAULT_POLICIES };
  const parts = { log: testLog, metrics, clock: systemClock, bus, store, format, config };
  const leases = createLeaderLeases(store, "reader-1", Date.now);
  stop = await start({ ...parts, instance: "reader-1", leases, disk: unguardedDisk });
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await stop?.();
  await bench?.close();
  await bus?.close();
  await nats?.stop();
});
beforeEach(() => {
  tenants += 1;
  tenant = `t${tenants}`;
});

async function client(agentId = "anna", of = tenant): Promise<FleetClient> {
  const one = await connectSdk({ url: nats.url, tenant: of, agentId, fallback: "none" });
  clients.push(one);
  return one;
}

const alert = (task: string, occasion: string, severity: Severity = "critical", of = tenant) =>
  alertOf("HANDOFF_FAILED", severity, {
    tenant: of,
    task,
    occasion,
    nowMs: Date.now(),
    data: { handoffId: "h", taskId: task, state: "escalated", reason: "no_agent" },
  });

const publish = (one: Parameters<typeof publishAlert>[1]) =>
  publishAlert({ bus, metrics, log: testLog }, one).then(() => one.id);

const idsOf = ({ alerts }: AlertPage) => alerts.map(({ alert: { id } }: AlertState) => id);

describe("list", () => {
  test("is newest first, by task, severity and type, with only the tenant's own alerts", async () => {
    const ids = [
      await publish(alert("auth", "1")),
      await publish(alert("auth", "2", "warning")),
      await publish(alert("billing", "1")),
    ];
    await publish(alert("auth", "1", "critical", `${tenant}-other`));
    const dead = alertOf("COMMAND_DEAD", "warning", {
      tenant,
      task: "auth",
      occasion: "letter-1",
      nowMs: Date.now(),
      data: { stream: STREAMS.queue, reason: "fenced", commandId: null },
    });
    ids.push(await publish(dead));
    const fleet = await client();
    expect(idsOf(await fleet.admin.listAlerts())).toEqual([...ids].reverse());
    expect(idsOf(await fleet.admin.listAlerts({ taskId: "auth" }))).toEqual([ids[3], ids[1], ids[0]]);
    expect(idsOf(await fleet.admin.listAlerts({ severity: "critical" }))).toEqual([ids[2], ids[0]]);
    expect(idsOf(await fleet.admin.listAlerts({ taskId: "auth", severity: "critical" }))).toEqual([ids[0]]);
    expect(idsOf(await fleet.admin.listAlerts({ type: "COMMAND_DEAD" }))).toEqual([ids[3]]);
    expect(idsOf(await fleet.admin.listAlerts({ taskId: "nothing" }))).toEqual([]);
    expect((await fleet.admin.listAlerts({ limit: 1 })).alerts).toEqual([
      { alert: dead, acknowledgement: null, resolved: false },
    ]);
  });

  test("continues by its cursor across other tenants' alerts, with each alert once", async () => {
    const own: string[] = [];
    for (let i = 0; i < 120; i += 1) {
      if (i % 4 === 0) own.push(await publish(alert("auth", String(i))));
      await publish(alert("auth", String(i), "warning", `${tenant}-other`));
    }
    const fleet = await client();
    const pages: AlertPage[] = [];
    do pages.push(await fleet.admin.listAlerts({ limit: 7, cursor: pages.at(-1)?.cursor }));
    while (pages.at(-1)?.cursor !== undefined);
    expect(pages.flatMap(idsOf)).toEqual(own.reverse());
    expect(pages.map(({ alerts }) => alerts.length)).toEqual([7, 7, 7, 7, 2]);
    // The last page has the last alert. Otherwise an empty page would follow.
    expect(await fleet.admin.listAlerts({ limit: 30 })).not.toHaveProperty("cursor");
    const cursor = pages[0]?.cursor;
    await expect(fleet.admin.listAlerts({ limit: 7, taskId: "auth", cursor })).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "cursor" }],
    });
  });

  test("ends a page early after many scanned alerts", async () => {
    const fleet = await client();
    const wanted = await publish(alert("auth", "first", "warning"));
    const alerts = Array.from({ length: LIMITS.alerts_scan_count_max + 10 }, (_, i) =>
      alert("auth", `n${i}`),
    );
    for (let at = 0; at < alerts.length; at += 500) {
      const messages = alerts.slice(at, at + 500).map((one) => ({
        subject: SUBJECTS.alert(tenant, one.severity, one.subject),
        body: Buffer.from(JSON.stringify(one)),
        messageId: one.id,
        orderKey: "one",
      }));
      await bus.publishOrdered(messages, { timeoutMs: 20_000 });
    }
    const first = await fleet.admin.listAlerts({ type: "COMMAND_DEAD" });
    expect(first.alerts).toEqual([]);
    expect(first.cursor).toBeDefined();
    expect(await fleet.admin.listAlerts({ type: "COMMAND_DEAD", cursor: first.cursor })).toEqual({
      alerts: [],
    });
    // The server filters by subject, so these need no scan.
    expect(idsOf(await fleet.admin.listAlerts({ severity: "warning" }))).toEqual([wanted]);
  }, 60_000);

  test("leaves out messages of foreign origin, and shows a copy once", async () => {
    const good = alert("auth", "1");
    await publish(good);
    const put = (subject: string, body: string, messageId: string) =>
      bus.publishDurable(subject, { body: Buffer.from(body) }, { messageId, timeoutMs: 5_000 });
    const subject = SUBJECTS.alert(tenant, "critical", "auth");
    await put(subject, JSON.stringify(good), `${tenant}-copy`);
    await put(subject, "{", `${tenant}-a`);
    await put(subject, JSON.stringify({ ...good, id: "no id" }), `${tenant}-b`);
    await put(subject, JSON.stringify({ ...good, pad: "x".repeat(LIMITS.alert_bytes_max) }), `${tenant}-c`);
    await put(SUBJECTS.alert(tenant, "critical", "other"), JSON.stringify(good), `${tenant}-d`);
    const page = await (await client()).admin.listAlerts();
    expect(page).toEqual({ alerts: [{ alert: good, acknowledgement: null, resolved: false }] });
  });
});

test("resolved alerts are separated, also across pages, as blocked tasks continue", async () => {
  const { repository } = bench;
  const tasks = ["one", "two", "three"];
  const ids: string[] = [];
  for (const task of tasks) {
    await send(repository, "take", {}, { tenant, task });
    await create(repository, { tenant, task, fence: 1 });
    const failure = sightingOf(await repository.task(tenant, task), { class: "unrecoverable" });
    await repository.recoveryActions.noteFailure({ tenant, task }, failure);
    const { blocked: block, audit_seq } = await repository.task(tenant, task);
    const blocked = alertOf("RECOVERY_BLOCKED", "critical", {
      ...{ tenant, task, occasion: String(audit_seq), nowMs: Date.parse(block?.at ?? "") },
      data: {
        ...{ taskId: task, reason: "unrecoverable", class: "unrecoverable", attempts: 0 },
        ...{ agentId: "agent-1", details: null },
      },
    });
    ids.push(await publish(blocked));
  }
  const fleet = await client();
  expect(idsOf(await fleet.admin.listAlerts({ resolved: false }))).toEqual([...ids].reverse());
  expect(await fleet.admin.listAlerts({ resolved: true })).toEqual({ alerts: [] });
  await send(repository, "recover", {}, { tenant, task: "two", agent: "anna" });
  expect(idsOf(await fleet.admin.listAlerts({ resolved: true }))).toEqual([ids[1]]);
  expect(await fleet.admin.alert(ids[1]!)).toMatchObject({ resolved: true, acknowledgement: null });
  const first = await fleet.admin.listAlerts({ resolved: false, limit: 1 });
  expect(idsOf(first)).toEqual([ids[2]]);
  const rest = { resolved: false, limit: 1, cursor: first.cursor };
  expect(idsOf(await fleet.admin.listAlerts(rest))).toEqual([ids[0]]);
  await expect(fleet.admin.listAlerts({ ...rest, resolved: true })).rejects.toMatchObject({
    code: "INVALID",
  });
  expect((await fleet.admin.listAlerts()).alerts.map(({ resolved }) => resolved)).toEqual([
    false,
    true,
    false,
  ]);
});

describe("an acknowledgement", () => {
  test("removes alerts from the list of the unacknowledged, and only the first one counts", async () => {
    const ids = [await publish(alert("auth", "1")), await publish(alert("auth", "2"))];
    const [anna, ben] = [await client("anna"), await client("ben")];
    const { alerts } = await anna.admin.acknowledgeAlert(ids[0]!, {
      note: `on it: ${SECRETS["AWS key id"]}`,
    });
    expect(alerts).toEqual([
      {
        alert_id: ids[0],
        acknowledgement: {
          by: "anna",
          at: expect.stringMatching(/Z$/),
          note: "on it: [redacted: AWS key id]",
        },
        already: false,
      },
    ]);
    expect(idsOf(await ben.admin.listAlerts({ acknowledged: false }))).toEqual([ids[1]]);
    expect(idsOf(await ben.admin.listAlerts({ acknowledged: true }))).toEqual([ids[0]]);
    expect(await ben.admin.alert(ids[0]!)).toMatchObject({
      acknowledgement: { by: "anna", note: "on it: [redacted: AWS key id]" },
    });

    const second = await ben.admin.acknowledgeAlert([ids[0]!, ids[1]!, ids[1]!]);
    expect(second.alerts).toMatchObject([
      { alert_id: ids[0], acknowledgement: alerts[0]?.acknowledgement, already: true },
      { alert_id: ids[1], acknowledgement: { by: "ben", note: null }, already: false },
    ]);
    expect(await ben.admin.listAlerts({ acknowledged: false })).toEqual({ alerts: [] });
  });

  test("covers all given alerts or none, and none of another tenant", async () => {
    const own = await publish(alert("auth", "1"));
    const others = await publish(alert("auth", "1", "critical", `${tenant}-other`));
    const fleet = await client();
    for (const unknown of [others, `${tenant}/auth/2`, `${tenant}/nothing/1`]) {
      await expect(fleet.admin.acknowledgeAlert([own, unknown])).rejects.toMatchObject({
        code: "NOT_FOUND",
        details: { alert_ids: [unknown] },
      });
      expect(await fleet.admin.alert(unknown)).toBeNull();
    }
    expect(idsOf(await fleet.admin.listAlerts({ acknowledged: false }))).toEqual([own]);
    await expect(fleet.admin.acknowledgeAlert(own, { note: "x".repeat(1_001) })).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "note" }],
    });
    await expect(fleet.admin.acknowledgeAlert("17")).rejects.toMatchObject({ code: "INVALID" });
  });

  test("expires only when the stream cannot hold its alert any more", async () => {
    const id = await publish(alert("auth", "1"));
    await (await client()).admin.acknowledgeAlert(id);
    const { store } = bench;
    const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
    const clear = async (inMs: number) =>
      (await store.transact(options, (tx) => clearExpiredAcks(tx, Date.now() + inMs, 1_000))).value.cleared;
    const acks = () => store.read(options, (reader) => readAcks(reader, tenant, [id]));
    expect(await clear(LIMITS.alerts_kept_ms)).toBe(0);
    expect(await acks()).toMatchObject([{ by: "anna" }]);
    expect(await clear(LIMITS.alerts_kept_ms + 3 * DAY_MS)).toBeGreaterThan(0);
    expect(await acks()).toEqual([null]);
    expect(await clear(LIMITS.alerts_kept_ms + 3 * DAY_MS)).toBe(0);
  });
});
