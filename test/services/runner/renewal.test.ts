// The credentials of an agent over time, from a real signing service: renewed, also after an outage of the service, until the runner
// is revoked.

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createInbox, credsAuthenticator } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { signedAgentCredentials } from "../../../services/runner/agent/agent-credentials.ts";
import type { AgentRecord } from "../../../services/runner/journal.ts";
import { serveAgentCredentials } from "../../../services/signer/agent-credentials.ts";
import { issueGrant, revokeGrants, updateServer } from "../../../shared/bus/access/administration.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { manualClock } from "../../harness/clock.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../harness/guarded-nats.ts";
import { testLog } from "../../harness/processes/nats.ts";

const MINUTE = 60_000;
const RUNNER = "runner-box";
const folder = mkdtempSync(join(tmpdir(), "fleet-renewal-"));
const record = { tenant: "default", agent_id: "coder", launcher: "process" } as AgentRecord;

let nats: GuardedNats;
let signerBus: Bus;
let stopSigner: Stop;
let runnerCredentials: string;

const serve = (): Promise<Stop> => {
  const { account, roles } = nats.keys;
  const keys = { account: account.getPublicKey(), roles };
  const metrics = createMetrics();
  return serveAgentCredentials({ log: testLog, clock: systemClock, metrics, keys }, signerBus);
};

beforeAll(async () => {
  nats = await startGuardedNats();
  const { text: creds } = await nats.issue(serviceGrant("signer"));
  const signer = { url: nats.url, name: "signer", identity: "test", service: "signer", log: testLog };
  signerBus = await connectBus({ ...signer, credentials: { creds } });
  stopSigner = await serve();
  const runner = {
    role: "runner",
    tenant: "default",
    name: RUNNER,
    expiresAt: null,
    now: new Date(),
  } as const;
  runnerCredentials = (await issueGrant(nats.access, runner)).credentials;
});

afterAll(async () => {
  await stopSigner?.();
  await signerBus?.close();
  await nats?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const runnerBus = (): Promise<Bus> =>
  connectBus({
    ...{ url: nats.url, name: RUNNER, identity: RUNNER, tenant: "default", log: testLog },
    credentials: { creds: runnerCredentials },
  });

test("a file is renewed every 20 minutes, and within a minute after an outage of the service", async () => {
  const bus = await runnerBus();
  const clock = manualClock();
  const path = join(folder, "outage.creds");
  const credentials = signedAgentCredentials(bus, RUNNER, { clock, log: testLog });
  const stop = await credentials.keep(record, path);
  const read = () => readFileSync(path, "utf8");
  const passes = async (ms: number): Promise<string> => {
    await clock.advance(ms);
    // The ticker sleeps again once its run is over.
    await clock.sleeping();
    return read();
  };
  try {
    const first = read();
    expect(await passes(15 * MINUTE)).toBe(first);
    const second = await passes(6 * MINUTE);
    expect(second).not.toBe(first);
    await stopSigner();
    expect(await passes(25 * MINUTE)).toBe(second);
    stopSigner = await serve();
    expect(await passes(MINUTE)).not.toBe(second);
  } finally {
    await stop?.();
    await bus.close();
  }
});

test("an agent that starts during a restart of the service gets its credentials", async () => {
  const bus = await runnerBus();
  const clock = manualClock();
  const path = join(folder, "restart.creds");
  const credentials = signedAgentCredentials(bus, RUNNER, { clock, log: testLog });
  await stopSigner();
  const keeping = credentials.keep(record, path);
  try {
    // The first request had no answer, and the pause before the next one has begun.
    await clock.sleeping();
    stopSigner = await serve();
    await clock.advance(1_000);
    expect(await keeping).not.toBeNull();
    expect(existsSync(path)).toBe(true);
  } finally {
    await (await keeping)?.();
    await bus.close();
  }
});

test("a request whose answer would go to another inbox is dropped", async () => {
  const connection = await connect({
    servers: nats.url,
    inboxPrefix: `_INBOX.default.${RUNNER}`,
    authenticator: credsAuthenticator(Buffer.from(runnerCredentials)),
  });
  // The holder of the other inbox: a runner may not read it.
  const other = await nats.connectAs({ role: "agent", tenant: "default", name: "other" });
  try {
    const subject = SUBJECTS.agentCredentials("default", RUNNER);
    const answers: string[] = [];
    const reply = createInbox("_INBOX.default.other");
    other.subscribe(reply, { callback: (_, { data }) => void answers.push(data.toString()) });
    await other.flush();
    connection.publish(subject, "{}", { reply });
    // The service takes requests in order. This one, from the caller's own inbox, is answered.
    const own = await connection.request(subject, "{}", { timeout: 20_000 });
    expect(own.json()).toMatchObject({ status: "error", error: { code: "INVALID" } });
    await other.flush();
    expect(answers).toEqual([]);
  } finally {
    await Promise.all([connection.close(), other.close()]);
  }
});

test("a revoked runner renews nothing", async () => {
  const bus = await runnerBus();
  const clock = manualClock();
  const path = join(folder, "revoked.creds");
  const credentials = signedAgentCredentials(bus, RUNNER, { clock, log: testLog });
  const stop = await credentials.keep(record, path);
  try {
    const before = readFileSync(path, "utf8");
    const lost = new Promise<void>((resolve) => {
      bus.onStatus((status) => status !== "connected" && resolve());
    });
    revokeGrants(nats.access, ({ name }) => name === RUNNER, new Date());
    await updateServer(nats.access, { url: nats.url });
    await lost;
    await clock.advance(90 * MINUTE);
    await clock.sleeping();
    expect(readFileSync(path, "utf8")).toBe(before);
    await expect(runnerBus()).rejects.toMatchObject({ kind: "permission" });
  } finally {
    await stop?.();
    await bus.close();
  }
  credentials.remove(path);
  expect(existsSync(path)).toBe(false);
});
