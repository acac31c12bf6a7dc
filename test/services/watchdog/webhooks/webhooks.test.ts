/**
 * Webhooks on a real nats-server, to real HTTP receivers: signed, retried, abandoned, and never lost by a
 * kill.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { Webhook } from "../../../../services/watchdog/webhooks/webhook-settings.ts";
import { startWebhooks } from "../../../../services/watchdog/webhooks/webhooks.ts";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { publishAlert } from "../../../../shared/bus/publish/publish-alert.ts";
import { fleetStreams } from "../../../../shared/bus/streams/streams.ts";
import { alertOf } from "../../../../shared/protocol/alerts.ts";
import type { Severity } from "../../../../shared/protocol/severity.ts";
import { STREAMS, SUBJECTS, webhookConsumer } from "../../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { createMetrics, type Metrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";
import { startNats, type TestNats, testLog } from "../../../harness/processes/nats.ts";
import { projectRoot } from "../../../harness/project-root.ts";
import { type Answer, isGenuine, type Receiver, startReceiver, status } from "./receiver.ts";

const SECRET = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
const SOON = { timeout: 90_000, interval: 10 };

let nats: TestNats;
let bus: Bus;
let admin: NatsConnection;
let metrics: Metrics;
let stops: Stop[];
let counter = 0;
let lines = "";
const log = createLogger({
  service: "test",
  level: "debug",
  destination: new Writable({
    write(chunk, _encoding, done) {
      lines += String(chunk);
      done();
    },
  }),
});

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
  admin = await connect({ servers: nats.url });
});
afterAll(async () => {
  await admin?.close();
  await bus?.close();
  await nats?.stop();
});
beforeEach(() => {
  stops = [];
  lines = "";
  metrics = createMetrics({ ofProcess: false });
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
});

async function receiver(answer: Answer): Promise<Receiver> {
  const one = await startReceiver(answer);
  stops.push(one.close);
  return one;
}

const consumers = async (): Promise<string[]> => {
  const names: string[] = [];
  for await (const { name } of (await jetstreamManager(admin)).consumers.list(STREAMS.alerts))
    names.push(name);
  return names;
};

/** Resolves when the webhooks receive new alerts. */
async function start(
  hooks: readonly (Partial<Webhook> & { url: string })[],
  nowMs = () => Date.now(),
): Promise<Stop> {
  const webhooks = hooks.map((hook): Webhook => {
    counter += 1;
    return { name: `hook-${counter}`, secret: SECRET, severities: null, tenants: null, ...hook };
  });
  const clock = { ...systemClock, now: nowMs };
  const stop = startWebhooks({ backgroundBus: bus, clock, log, metrics }, webhooks);
  stops.push(stop);
  const wanted = webhooks.map(({ name }) => webhookConsumer(name));
  await expect.poll(consumers, SOON).toEqual(expect.arrayContaining(wanted));
  return stop;
}

async function publish(task: string, severity: Severity = "critical", tenant = "default"): Promise<string> {
  counter += 1;
  const alert = alertOf("HANDOFF_FAILED", severity, {
    tenant,
    task,
    occasion: String(counter),
    nowMs: Date.now(),
    data: { handoffId: "h-1", taskId: task, state: "escalated", reason: "no_agent" },
  });
  await publishAlert({ bus, metrics, log: testLog }, alert);
  return alert.id;
}

const idsOf = ({ posts }: Receiver): unknown[] => posts.map(({ headers }) => headers["webhook-id"]);

async function counted(outcome: string): Promise<number> {
  const { values } = await metrics.webhooksTotal.get();
  return values.filter(({ labels }) => labels.outcome === outcome).reduce((sum, { value }) => sum + value, 0);
}

test("an alert is posted once, signed, with a line for operators and the alert for programs", async () => {
  const before = await publish("long-ago");
  const open = await receiver(status(200));
  const bare = await receiver(status(204));
  await start([{ url: `${open.url}/hooks/T0/secret?token=abc` }, { url: bare.url, secret: null }]);
  const id = await publish("auth");
  await expect.poll(() => counted("delivered"), SOON).toBe(2);
  expect(idsOf(open)).toEqual([id]);
  const [post] = open.posts;
  expect(post).toMatchObject({
    path: "/hooks/T0/secret?token=abc",
    headers: { "content-type": "application/json", "webhook-id": id },
  });
  expect(isGenuine(SECRET, post!)).toBe(true);
  expect(isGenuine(SECRET, { ...post!, body: `${post!.body} ` })).toBe(false);
  expect(isGenuine(SECRET.replace("M", "N"), post!)).toBe(false);
  const { text, alert } = JSON.parse(post!.body);
  expect(text).toBe(
    "[critical] Task auth is blocked: no agent accepted any of its offers in time. " +
      "Start an agent of the type that it was offered to, then offer the task again (recovery run, or else handoff). " +
      `Begin with: fleet handoff show h-1 (to acknowledge: fleet alerts ack ${id})`,
  );
  expect(alert).toMatchObject({ id, type: "HANDOFF_FAILED", subject: "auth", severity: "critical" });
  expect(idsOf(bare)).toEqual([id]);
  expect(bare.posts[0]?.headers).not.toHaveProperty("webhook-signature");
  // A new webhook begins with the next alert, not with those of the last month. No log names its address.
  expect(idsOf(open)).not.toContain(before);
  expect(lines).toContain("alert posted to a webhook");
  for (const secret of ["token=abc", "/hooks/T0", SECRET]) expect(lines).not.toContain(secret);
});

test("each webhook receives the severities and tenants of its settings", async () => {
  const [critical, acme] = [await receiver(status(200)), await receiver(status(200))];
  await start([
    { url: critical.url, severities: ["critical"] },
    { url: acme.url, tenants: ["acme", "umbrella"], severities: ["warning", "critical"] },
  ]);
  const ids = [
    await publish("a", "warning"),
    await publish("b", "critical"),
    await publish("c", "warning", "acme"),
    await publish("d", "critical", "umbrella"),
  ];
  await expect.poll(() => counted("delivered"), SOON).toBe(4);
  expect(idsOf(critical).sort()).toEqual([ids[1], ids[3]].sort());
  expect(idsOf(acme).sort()).toEqual([ids[2], ids[3]].sort());
  expect(JSON.parse(acme.posts.find(({ body }) => body.includes(ids[2]!))!.body).text).toMatch(
    /^\[warning, tenant acme\] .* --tenant acme \(.* --tenant acme\)$/,
  );
});

test("a temporary error is retried under the same id, with growing pauses, until the alert is accepted", async () => {
  const codes = [500, 408, 425, 503];
  const flaky = await receiver((response, post, count) =>
    status(codes[count - 1] ?? 200)(response, post, count),
  );
  await start([{ url: flaky.url }]);
  const id = await publish("auth");
  await expect.poll(() => counted("delivered"), SOON).toBe(1);
  expect(idsOf(flaky)).toEqual(Array(5).fill(id));
  expect(flaky.posts.every((post) => isGenuine(SECRET, post))).toBe(true);
  expect(await counted("retried")).toBe(4);
  const pauses = flaky.posts.slice(1).map(({ at }, i) => at - flaky.posts[i]!.at);
  // From half to all of 1, 2, 4 and 8 s.
  for (const [i, least] of [500, 1_000, 2_000, 4_000].entries())
    expect(pauses[i]).toBeGreaterThan(least - 100);
}, 180_000);

test("a Retry-After header delays the next attempt", async () => {
  const busy = await receiver((response, post, count) =>
    status(count === 1 ? 429 : 200, { "retry-after": "3" })(response, post, count),
  );
  await start([{ url: busy.url }]);
  await publish("auth");
  await expect.poll(() => counted("delivered"), SOON).toBe(1);
  expect(busy.posts[1]!.at - busy.posts[0]!.at).toBeGreaterThan(2_900);
}, 180_000);

test.each([400, 401, 404, 410, 302])("status %d abandons the alert at once and is logged", async (code) => {
  const other = await receiver(status(200));
  const refusing = await receiver(status(code, { location: other.url }));
  await start([{ url: refusing.url }]);
  const ids = [await publish("auth"), await publish("auth")];
  await expect.poll(() => counted("refused"), SOON).toBe(2);
  expect(idsOf(refusing).sort()).toEqual([...ids].sort());
  expect(other.posts).toEqual([]);
  expect(lines).toContain("a webhook refused an alert; it is not posted again");
  const { num_pending, num_ack_pending, config } = await (await jetstreamManager(admin)).consumers.info(
    STREAMS.alerts,
    webhookConsumer(`hook-${counter - 2}`),
  );
  expect({ num_pending, num_ack_pending }).toEqual({ num_pending: 0, num_ack_pending: 0 });
  // The position of a removed webhook expires.
  expect(config.inactive_threshold).toBe(7 * 86_400e9);
});

test("a receiver that hangs delays neither other webhooks nor later alerts", async () => {
  const hanging = await receiver((response, post) => {
    if (!post.body.includes('"subject":"stuck"')) status(200)(response, post, 0);
  });
  const quick = await receiver(status(200));
  await start([{ url: hanging.url }, { url: quick.url }]);
  const begin = performance.now();
  const stuck = await publish("stuck");
  await expect.poll(() => idsOf(hanging), SOON).toEqual([stuck]);
  const later = [await publish("auth"), await publish("billing"), await publish("search")];
  await expect.poll(() => counted("delivered"), SOON).toBe(7);
  expect(idsOf(hanging)).toEqual(expect.arrayContaining(later));
  await expect.poll(() => idsOf(hanging).filter((id) => id === stuck).length, SOON).toBe(2);
  expect(performance.now() - begin).toBeGreaterThan(10_000);
  expect(lines).toContain('"problem":"no answer in time"');
  // The later alerts were posted while the first post waited for its answer.
  expect(idsOf(hanging).slice(0, 4).sort()).toEqual([stuck, ...later].sort());
  expect(idsOf(hanging)[4]).toBe(stuck);
}, 180_000);

test("a refused connection is retried for a day, then the alert is abandoned and logged", async () => {
  const gone = await startReceiver(status(200));
  await gone.close();
  let aheadMs = 0;
  await start([{ url: `${gone.url}/hooks/secret` }], () => Date.now() + aheadMs);
  await publish("auth");
  await expect.poll(() => counted("retried"), SOON).toBeGreaterThan(0);
  expect(lines).toContain('"problem":"ECONNREFUSED"');
  aheadMs = 24 * 3_600_000;
  await expect.poll(() => counted("expired"), SOON).toBe(1);
  expect(lines).toContain("a webhook did not accept an alert for a day; it is not posted again");
  expect(lines).not.toContain("hooks/secret");
}, 180_000);

test("a message that is not an alert is dropped and delays nothing", async () => {
  const open = await receiver(status(200));
  await start([{ url: open.url }]);
  const subject = SUBJECTS.alert("default", "critical", "auth");
  for (const body of ["{", '{"id":"x"}', "x".repeat(9_000)]) {
    counter += 1;
    await bus.publishDurable(
      subject,
      { body: Buffer.from(body) },
      { messageId: `r${counter}`, timeoutMs: 5_000 },
    );
  }
  const id = await publish("auth");
  await expect.poll(() => counted("delivered"), SOON).toBe(1);
  await expect.poll(() => counted("unreadable"), SOON).toBe(3);
  expect(idsOf(open)).toEqual([id]);
});

test("one of several watchdogs posts an alert, and the next continues from its position", async () => {
  const open = await receiver(status(200));
  const name = "shared";
  const first = await start([{ url: open.url, name }]);
  const second = await start([{ url: open.url, name }]);
  const ids: string[] = [];
  for (let i = 0; i < 20; i += 1) ids.push(await publish("auth"));
  await expect.poll(() => counted("delivered"), SOON).toBe(20);
  await Promise.all([first(), second()]);
  ids.push(await publish("auth"));
  await start([{ url: open.url, name }]);
  await expect.poll(() => counted("delivered"), SOON).toBe(21);
  expect(idsOf(open).sort()).toEqual(ids.sort());
}, 180_000);

test("a watchdog that stops leaves the post in progress to the next one", async () => {
  const hanging = await receiver((response, post, count) => {
    if (count > 1) status(200)(response, post, count);
  });
  const stop = await start([{ url: hanging.url, name: "left" }]);
  const id = await publish("auth");
  await expect.poll(() => hanging.posts.length, SOON).toBe(1);
  const begin = performance.now();
  await stop();
  // A stop that waited for the answer would take 10 s.
  expect(performance.now() - begin).toBeLessThan(9_000);
  await start([{ url: hanging.url, name: "left" }]);
  await expect.poll(() => idsOf(hanging), SOON).toEqual([id, id]);
}, 180_000);

test("a kill between post and acknowledgement repeats the post under the same id", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-webhooks-"));
  let kill = (): void => {};
  const open = await receiver((response, post, count) => {
    // The receiver has the alert, and the process does not learn it.
    if (count === 1) kill();
    else status(200)(response, post, count);
  });
  const file = join(folder, "webhooks.json");
  writeFileSync(file, JSON.stringify([{ name: "killed", url: open.url, secret: SECRET }]));
  const launch = () => {
    const program = new URL("posting.program.ts", import.meta.url).pathname;
    return spawn(process.execPath, [program, nats.url, file], { cwd: projectRoot, stdio: "ignore" });
  };
  try {
    const one = launch();
    kill = () => one.kill("SIGKILL");
    await expect.poll(consumers, SOON).toContain(webhookConsumer("killed"));
    const id = await publish("auth");
    const [, signal] = one.signalCode === null ? await once(one, "exit") : [null, one.signalCode];
    expect(signal).toBe("SIGKILL");
    const other = launch();
    await expect.poll(() => idsOf(open), SOON).toEqual([id, id]);
    other.kill("SIGTERM");
    await once(other, "exit");
    expect(open.posts.every((post) => isGenuine(SECRET, post))).toBe(true);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}, 180_000);
