// `fleet doctor` and the faults of single parts: a connection in clear text, a store in memory or held by a process that hangs, a full account,
// a machine with a wrong clock, and an older nats-server. Each is made for real.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { resultOf, startCli } from "../../services/cli/process.ts";
import { type BusServer, prepareBusServer } from "./bus-server.ts";
import { checksOf, type DoctorReport, examine, problemsOf, type ReportedCheck } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const TEST_MS = 120_000;
const SOON = { timeout: 60_000, interval: 250 };
const MIB = 1024 * 1024;
/** A nats-server older than the recommended one. */
const OLDER_SERVER = process.env.FLEET_TEST_OLDER_NATS;
const machine = prepareMachine();
const storePath = join(machine.folder, "store");

if (OLDER_SERVER === undefined)
  process.stderr.write(
    "doctor: no older nats-server is examined, because FLEET_TEST_OLDER_NATS names none\n",
  );

let bus: BusServer;
let reader: TestService;

const settings = (server = bus) => ({
  ...environmentOf({ busUrl: server.url, storeUrl: `lmdb:${storePath}?shared` }),
  FLEET_NATS_MONITOR_URL: server.monitorUrl,
});
const doctor = (url = bus.url): Promise<DoctorReport> => examine(machine.forBus(url));
const byFound = (a: ReportedCheck, b: ReportedCheck): number => (a.found < b.found ? -1 : 1);
const nameOf = ({ role, pid }: TestService): string => `${role}/\\S+-${pid}`;

async function startExtra(env: Record<string, string>): Promise<TestService> {
  const extra = await startService("reader", { ...settings(), ...env });
  onTestFinished(() => extra.kill9());
  return extra;
}

beforeAll(async () => {
  bus = await prepareBusServer();
  await bus.start({ accountBytes: "none" });
  reader = await startService("reader", settings());
}, TEST_MS);
afterAll(async () => {
  await reader?.kill9();
  await bus?.remove();
});

test(
  "connections without TLS to an address that is not loopback are failures, each by its name",
  async () => {
    // The address of all interfaces: the connection stays on this machine, but its address does not tell that.
    const url = bus.url.replace("127.0.0.1", "0.0.0.0");
    const open = await startExtra({ FLEET_URL: url });
    // On a busy machine the bus answers a new service late.
    const links = async () => checksOf(await doctor(url), "encryption.bus").toSorted(byFound);
    await expect.poll(links, SOON).toMatchObject([
      {
        state: "failed",
        found: expect.stringMatching(`^${nameOf(open)} reaches the bus over a network without TLS$`),
        meaning: expect.stringContaining("reads and changes the work"),
        fix: expect.stringContaining("tls://"),
      },
      { state: "failed", found: "this command reaches the bus over a network without TLS" },
    ]);
  },
  TEST_MS,
);

test(
  "a bus that asks for credentials, and accepts programs without them as another user, is a warning",
  async () => {
    const connection = await connect({ servers: bus.url });
    // The server tells it after the greeting.
    await expect.poll(() => connection.info?.auth_required, SOON).toBe(true);
    await connection.close();
    expect(checksOf(await doctor(), "bus.credentials")).toMatchObject([
      {
        state: "warning",
        found: "the bus accepts connections without credentials",
        fix: expect.stringContaining("without `no_auth_user`"),
      },
    ]);
  },
  TEST_MS,
);

test(
  "a store in memory is a warning",
  async () => {
    await startExtra({ FLEET_STORE: "memory:" });
    // The bus may answer a new service late.
    const findings = async () =>
      checksOf(await doctor(), "store.health").filter(({ state }) => state !== "ok");
    await expect.poll(findings, SOON).toMatchObject([
      {
        state: "warning",
        found: "the records are in memory alone: a restart loses them",
        fix: expect.stringContaining("FLEET_STORE"),
      },
    ]);
    expect((await doctor()).exit).toBe(1);
  },
  TEST_MS,
);

test(
  "a store that another process holds is a failure of each service that waits for it, until that process ends",
  async () => {
    const holder = spawn(process.execPath, ["test/fleet/doctor/store-lock.program.ts", storePath], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const health = async () => checksOf(await doctor(), "store.health");
    try {
      await once(holder.stdout, "data");
      await expect.poll(health, SOON).toMatchObject([
        {
          state: "failed",
          found: expect.stringMatching(
            `^the store does not answer ${nameOf(reader)}: a commit was not answered in time$`,
          ),
          fix: expect.stringContaining("Runbook: the store does not answer"),
        },
      ]);
    } finally {
      holder.kill("SIGKILL");
    }
    await expect.poll(health, SOON).toMatchObject([{ state: "ok" }]);
  },
  TEST_MS,
);

test(
  "an account that is nearly full is a warning",
  async () => {
    const connection = await connect({ servers: bus.url });
    // No service reads dead letters.
    for (let n = 0; n < 28; n += 1)
      await connection.request("fleet.dead.FLEET_QUEUE.test.task-1", new Uint8Array(MIB), {
        timeout: 30_000,
      });
    await connection.close();
    bus.reload({ accountBytes: 32 * MIB });
    const storage = async () => checksOf(await doctor(), "bus.storage");
    await expect.poll(storage, SOON).toMatchObject([
      {
        state: "warning",
        found: expect.stringMatching(/^\d+(\.\d+)? MiB of 32(\.0)? MiB used by JetStream$/),
        fix: expect.stringContaining("max_file"),
      },
    ]);
    bus.reload({ accountBytes: "none" });
    await expect.poll(storage, SOON).toMatchObject([{ state: "ok" }]);
  },
  TEST_MS,
);

test(
  "on a machine with a wrong clock, those of the services and of the bus differ from it",
  async () => {
    const skewMs = LIMITS.clock_skew_ms_max + 15_000;
    const preload = pathToFileURL(join(projectRoot, "test/fleet/doctor/clock-ahead.program.ts")).href;
    const child = startCli(["doctor", "--json", "--timeout", "20s"], {
      env: {
        ...machine.forBus(bus.url),
        ...{ NODE_OPTIONS: `--import=${preload}`, FLEET_TEST_SKEW_MS: String(skewMs) },
      },
    });
    const { exit, out, err } = await resultOf(child);
    expect(exit, err).toBe(1);
    const report = { exit, ...JSON.parse(out) } as DoctorReport;
    for (const [code, name] of [
      ["clocks.bus", "the clock of the bus"],
      ["clocks.services", `the clock of ${nameOf(reader)}`],
    ] as const)
      expect(checksOf(report, code), code).toMatchObject([
        {
          state: "failed",
          found: expect.stringMatching(`^${name} is 4\\d\\.\\d s behind the clock of this machine`),
          fix: expect.stringContaining("timedatectl"),
        },
      ]);
  },
  TEST_MS,
);

test.skipIf(OLDER_SERVER === undefined)(
  "an older nats-server is a warning, with its version and its name",
  async () => {
    const older = await prepareBusServer(OLDER_SERVER);
    onTestFinished(() => older.remove());
    await older.start();
    const extra = await startExtra(settings(older));
    const report = await doctor(older.url);
    expect(checksOf(report, "bus.version")).toMatchObject([
      {
        state: "warning",
        found: expect.stringMatching(/^nats-server 2\.\d+\.\d+ \(doctor-bus\) is older than 2\.\d+\.\d+$/),
        fix: expect.stringContaining("one after the other"),
      },
    ]);
    expect(problemsOf(report)).toContain("warning bus.version");
    await extra.kill9();
  },
  TEST_MS,
);
