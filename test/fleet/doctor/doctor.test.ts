// `fleet doctor` on a developer's machine: a standalone fleet that is healthy, and then one fault after the other, each made for real.

import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { administratorAuthenticator } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { fill, smallDisk } from "../../harness/small-disk.ts";
import { callCli } from "../../services/cli/call.ts";
import { checksOf, examine, problemsOf } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const START_MS = 120_000;
const CALLS_MS = 100_000;
const SOON = { timeout: 40_000, interval: 250 };

const machine = prepareMachine();
let fleet: TestFleet;

const own = () => machine.forFleet(fleet);

beforeAll(async () => {
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
}, START_MS);
afterAll(async () => {
  await fleet?.stop();
});

test(
  "a new fleet is healthy: every check is made and none finds a problem",
  async () => {
    let report = await examine(own());
    // On a busy machine an answer may come too late to be checked.
    await expect
      .poll(async () => {
        if (report.counts.not_checked > 0) report = await examine(own());
        return report.checks.filter(({ state }) => state === "not_checked");
      }, SOON)
      .toEqual([]);
    expect(problemsOf(report)).toEqual([]);
    expect(report).toMatchObject({
      exit: 0,
      healthy: true,
      counts: { warning: 0, failed: 0, not_checked: 0 },
    });
    expect(checksOf(report, "bus.sync")[0]?.found).toContain("syncs to disk before it acknowledges");
    expect(report.services.length).toBeGreaterThan(0);
  },
  CALLS_MS,
);

test(
  "the text has a line for each check, and no secret",
  async () => {
    const { exit, out } = await callCli(["doctor"], { env: own() });
    expect({ exit, end: out.trimEnd().split("\n").at(-1) }).toEqual({ exit: 0, end: "No problem found" });
    expect(out).toMatch(/^ok +bus\.connection +nats-server/m);
    expect(out).not.toMatch(/\bS[AOUC][A-Z2-7]{50,}|eyJ/);
  },
  CALLS_MS,
);

test(
  "the services name nothing of another tenant",
  async () => {
    const wombat = await fleet.client("wombat-agent", "wombat");
    const checkpoint = {
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing" as const },
    };
    await wombat.createCheckpoint({ taskId: "wombat-task", checkpoint });
    const { admin } = await fleet.client("human=auditor");
    const found = await admin.diagnose();
    expect(found.length).toBeGreaterThan(0);
    expect(JSON.stringify(found)).not.toContain("wombat");
  },
  CALLS_MS,
);

test(
  "keys that other users can read are named with the command that closes them",
  async () => {
    const access = join(fleet.home, "access");
    const key = join(access, readdirSync(access).find((name) => name === "account.nk")!);
    chmodSync(fleet.home, 0o755);
    chmodSync(access, 0o755);
    chmodSync(key, 0o644);
    try {
      const report = await examine(own());
      expect(report).toMatchObject({ exit: 1, healthy: false });
      // Fleet's own programs refuse to use such a key.
      expect(problemsOf(report)).toEqual(
        expect.arrayContaining(["failed bus.connection", "failed machine.permissions"]),
      );
      expect(checksOf(report, "bus.connection")[0]?.fix).toMatch(/^Run: chmod 600 /);
      const [found] = checksOf(report, "machine.permissions").filter(({ found }) => found.startsWith(key));
      expect(found?.found).toBe(`${key} has mode 0644: other users can read it`);
      expect(found?.fix).toContain(`chmod go= ${key}`);
      expect(JSON.stringify(report)).not.toContain(readFileSync(key, "utf8").trim());
    } finally {
      chmodSync(key, 0o600);
      chmodSync(access, 0o700);
      chmodSync(fleet.home, 0o700);
    }
    expect((await examine(own())).exit).toBe(0);
  },
  CALLS_MS,
);

test(
  "a home that other users can write is named",
  async () => {
    chmodSync(fleet.home, 0o777);
    try {
      const [found] = checksOf(await examine(own()), "machine.permissions");
      expect(found).toMatchObject({
        state: "failed",
        fix: expect.stringContaining(`chmod go-w ${fleet.home}`),
      });
    } finally {
      chmodSync(fleet.home, 0o700);
    }
  },
  CALLS_MS,
);

test(
  "a sealed stream is a failure, with the step that solves it",
  async () => {
    const nats = await connect({
      servers: fleet.url,
      authenticator: await administratorAuthenticator(fleet.home),
    });
    try {
      const manager = await jetstreamManager(nats);
      const { config } = await manager.streams.info("FLEET_EXITS");
      await manager.streams.update("FLEET_EXITS", { ...config, sealed: true } as never);
      // For a moment the services answer with what they found for the test before.
      const found = async () => checksOf(await examine(own()), "bus.streams")[0];
      await expect.poll(found, SOON).toMatchObject({
        state: "failed",
        found: "FLEET_EXITS is sealed: it accepts no messages",
        meaning: expect.stringContaining("refused or lost"),
        fix: expect.stringContaining("Back up the stream and remove it"),
      });
      await manager.streams.delete("FLEET_EXITS");
      await expect.poll(found, SOON).toMatchObject({ state: "ok" });
    } finally {
      await nats.close();
    }
  },
  CALLS_MS,
);

test(
  "a bus without credentials is a warning, and a disk below its reserve a failure",
  async () => {
    const other = await startFleet(
      { FLEET_AUTH: "off", FLEET_DISK_MIN_FREE: `${1024 ** 2}GiB`, FLEET_GATEWAY_PORT: "-1" },
      { cold: true },
    );
    try {
      const report = await examine(machine.forFleet(other));
      expect(problemsOf(report)).toEqual(["warning bus.credentials", "failed disks.services"]);
      expect(report.exit).toBe(1);
      expect(checksOf(report, "disks.services")[0]).toMatchObject({
        found: expect.stringMatching(/^the disk of store and bus of standalone\/.+ is full: .+ free of /),
        fix: expect.stringContaining("FLEET_DISK_MIN_FREE"),
      });
    } finally {
      await other.stop();
    }
  },
  START_MS,
);

test(
  "a full disk of the machine is a failure of the machine, and of the services on it",
  async (context) => {
    const disk = smallDisk(200, context);
    const other = await startFleet({ FLEET_GATEWAY_PORT: "-1" }, { home: join(disk, "home"), cold: true });
    onTestFinished(() => other.stop());
    fill(disk, 10);
    const report = await examine(machine.forFleet(other));
    expect(problemsOf(report)).toEqual(["failed disks.services", "failed machine.disk"]);
    expect(checksOf(report, "machine.disk")[0]).toMatchObject({
      found: expect.stringMatching(`^the disk of ${other.home} is full: .+ free of `),
      meaning: expect.stringContaining("spool"),
      fix: expect.stringContaining("FLEET_HOME"),
    });
  },
  START_MS,
);

test(
  "credentials of an observer cannot ask the services: these checks are not made, and not sound",
  async () => {
    const file = join(machine.folder, "observer.creds");
    const issued = await callCli(
      ["access", "issue", "--role", "observer", "--agent", "auditor", "--out", file],
      {
        env: own(),
      },
    );
    expect(issued.exit, issued.err).toBe(0);
    const report = await examine({
      ...machine.forBus(fleet.url),
      FLEET_NATS_CREDS: file,
      FLEET_PERSON: "auditor",
    });
    expect(checksOf(report, "services.running")).toMatchObject([
      { state: "warning", found: expect.stringContaining("the bus does not permit this") },
    ]);
    for (const code of ["services.answers", "clocks.services", "bus.sync", "store.health"] as const)
      expect(checksOf(report, code), code).toMatchObject([{ state: "not_checked" }]);
  },
  CALLS_MS,
);

test(
  "a stopped fleet is a failure, and commands that wait for it are a warning",
  async () => {
    await fleet.terminate();
    const written = await callCli(
      [
        "checkpoint",
        "--task",
        "spooled",
        "--type",
        "qa",
        "--phase",
        "testing",
        "--next",
        "Run the tests again",
      ],
      { env: { ...own(), FLEET_AGENT_ID: "tester" } },
    );
    expect(written.exit, written.err).toBe(0);
    const report = await examine(own());
    expect(report.exit).toBe(1);
    expect(problemsOf(report)).toEqual(["failed bus.connection", "warning machine.spool"]);
    expect(checksOf(report, "services.running")).toMatchObject([{ state: "not_checked" }]);
    expect(checksOf(report, "machine.spool")[0]).toMatchObject({
      found: expect.stringContaining("1 command of tester wait"),
      fix: expect.stringContaining("spool flush"),
    });
    await fleet.start();
  },
  START_MS,
);
