// `fleet doctor` as the operator of separate services uses it. Each fault is made for real: processes are killed and frozen, one has a
// wrong clock, one an older version, and the bus is started again with other settings.

import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import {
  environmentOf,
  type Role,
  startService,
  type TestService,
} from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { type BusServer, prepareBusServer } from "./bus-server.ts";
import { BRIEF, checksOf, type DoctorReport, examine, problemsOf } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const TEST_MS = 120_000;
const SOON = { timeout: 60_000, interval: 250 };
const ROLES = ["writer", "reader", "coordinator", "watchdog"] as const;
const machine = prepareMachine();
const { folder } = machine;
const signingKey = machine.signingKey("signing-key.pem");

let bus: BusServer;
let services: Map<Role, TestService>;

const settings = () => ({
  ...environmentOf({ busUrl: bus.url, storeUrl: `lmdb:${folder}/store?shared` }),
  FLEET_NATS_MONITOR_URL: bus.monitorUrl,
  FLEET_SIGNING_KEY: signingKey,
});
const doctor = (timeout?: string): Promise<DoctorReport> => examine(machine.forBus(bus.url), timeout);

/** One more instance, until the test ends. */
async function startExtra(role: Role, env: Record<string, string>, program?: string): Promise<TestService> {
  const extra = await startService(role, { ...settings(), ...env }, program === undefined ? {} : { program });
  onTestFinished(() => extra.kill9());
  return extra;
}

beforeAll(async () => {
  bus = await prepareBusServer();
  await bus.start();
  const started = await Promise.all(ROLES.map((role) => startService(role, settings())));
  services = new Map(started.map((service) => [service.role, service]));
}, TEST_MS);
afterAll(async () => {
  await Promise.all([...(services?.values() ?? [])].map((service) => service.kill9()));
  await bus?.remove();
});

test(
  "whole services have no problem, apart from a bus without credentials",
  async () => {
    const report = await doctor();
    expect(problemsOf(report)).toEqual(["warning bus.credentials"]);
    expect(report.exit).toBe(1);
    expect(checksOf(report, "services.running")[0]?.found).toBe(
      "1 coordinator, 1 reader, 1 watchdog, 1 writer",
    );
    expect(checksOf(report, "services.answers")).toMatchObject([
      { state: "ok", found: "4 instances answered" },
    ]);
  },
  TEST_MS,
);

test(
  "a killed service is a failure, and so are the messages that wait for it",
  async () => {
    await services.get("coordinator")!.kill9();
    const connection = await connect({ servers: bus.url });
    const count = LIMITS.consumer_backlog_warn + 10;
    for (let n = 0; n < count; n += 1) connection.publish("fleet.event.default.AGENT_HANDOFF.task-1", "{}");
    await connection.flush();
    await connection.close();
    // The server stores them one after the other, and other consumers may wait for a moment as well.
    let report = await doctor();
    const backlogs = async () => {
      report = await doctor();
      return checksOf(report, "bus.consumers").map(({ state, found }) => `${state} ${found}`);
    };
    await expect
      .poll(backlogs, SOON)
      .toContainEqual(
        expect.stringMatching(/^warning 1,0\d\d messages wait for the consumer coordinator of FLEET_EVENTS$/),
      );
    expect(problemsOf(report)).toContain("failed services.running");
    expect(checksOf(report, "services.running")).toMatchObject([
      {
        found: "no coordinator answers: no task is handed over",
        fix: expect.stringContaining("npx node services/coordinator/main.ts"),
      },
    ]);
    services.set("coordinator", await startService("coordinator", settings()));
    await expect.poll(async () => problemsOf(await doctor()), SOON).toEqual(["warning bus.credentials"]);
  },
  TEST_MS,
);

test(
  "a frozen service is named by its connection",
  async () => {
    const watchdog = services.get("watchdog")!;
    watchdog.pause();
    try {
      const report = await doctor(BRIEF);
      expect(checksOf(report, "services.answers")).toMatchObject([
        {
          state: "failed",
          found: expect.stringMatching(`^connected without an answer: watchdog/.+-${watchdog.pid}$`),
        },
      ]);
      expect(problemsOf(report)).toContain("failed services.running");
    } finally {
      watchdog.resume();
    }
  },
  TEST_MS,
);

test(
  "a service with a wrong clock is a failure, with the size of the difference",
  async () => {
    const skewMs = LIMITS.clock_skew_ms_max + 15_000;
    const program = "test/fleet/doctor/skewed-coordinator.program.ts";
    const { pid } = await startExtra("coordinator", { FLEET_TEST_SKEW_MS: String(skewMs) }, program);
    const report = await doctor();
    expect(checksOf(report, "clocks.services")).toMatchObject([
      {
        state: "failed",
        found: expect.stringMatching(
          `^the clock of coordinator/.+-${pid} is \\d+\\.\\d s ahead of the clock of this machine`,
        ),
        fix: expect.stringContaining("timedatectl"),
      },
    ]);
    // The clock of the bus is right, although one service compared it with its own.
    expect(checksOf(report, "clocks.bus")).toMatchObject([{ state: "ok" }]);
    const own = report.services.find(({ instance }) => instance.endsWith(`-${pid}`))!;
    const error = Math.abs(own.clock_offset_ms - skewMs);
    // On a busy machine the messages take long, which the command says.
    expect(error).toBeLessThanOrEqual(own.clock_uncertainty_ms + 100);
  },
  TEST_MS,
);

test(
  "a service of an older version is a warning",
  async () => {
    const older = join(folder, "older");
    mkdirSync(older);
    for (const part of ["services", "shared"])
      cpSync(join(projectRoot, part), join(older, part), { recursive: true });
    symlinkSync(join(projectRoot, "node_modules"), join(older, "node_modules"));
    const manifest = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8")) as {
      version: string;
    };
    writeFileSync(join(older, "package.json"), JSON.stringify({ ...manifest, version: "0.0.9" }));
    const { pid } = await startExtra("reader", {}, join(older, "services/reader/main.ts"));
    const report = await doctor();
    expect(checksOf(report, "services.version")).toMatchObject([
      {
        state: "warning",
        found: expect.stringMatching(
          `^reader/.+-${pid} has version 0\\.0\\.9, this command ${manifest.version}$`,
        ),
        fix: `Install ${manifest.version} everywhere, and restart the services one after the other.`,
      },
    ]);
  },
  TEST_MS,
);

test(
  "without the monitoring address, the sync policy and silent instances are not checked, and not sound",
  async () => {
    const without = { ...settings(), FLEET_NATS_MONITOR_URL: "" };
    await Promise.all([...services.values()].map((service) => service.kill9()));
    const alone = await startService("reader", without);
    try {
      const report = await doctor(BRIEF);
      for (const code of ["bus.sync", "services.answers"] as const)
        expect(checksOf(report, code), code).toMatchObject([
          { state: "not_checked", fix: expect.stringContaining("FLEET_NATS_MONITOR_URL") },
        ]);
      expect(report.counts.not_checked).toBe(2);
    } finally {
      await alone.kill9();
      const started = await Promise.all(ROLES.map((role) => startService(role, settings())));
      services = new Map(started.map((service) => [service.role, service]));
    }
  },
  TEST_MS,
);

test(
  "a bus that was restarted without its sync policy, on all addresses and without TLS, is a failure",
  async () => {
    await bus.kill9();
    await bus.start({ host: "0.0.0.0", syncAlways: false });
    await expect
      .poll(async () => problemsOf(await doctor()), SOON)
      .toEqual(["warning bus.credentials", "failed bus.sync", "failed encryption.listener"]);
    const report = await doctor();
    expect(checksOf(report, "bus.sync")).toMatchObject([
      {
        found: "doctor-bus acknowledges before it syncs to disk",
        fix: expect.stringContaining("sync_interval: always"),
      },
    ]);
    expect(checksOf(report, "encryption.listener")[0]?.found).toBe(
      "the bus listens on 0.0.0.0 and reads messages without TLS",
    );
  },
  TEST_MS,
);
