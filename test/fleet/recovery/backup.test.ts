// Backups of real fleets: made while agents write, restored after the store was lost, and what the lost future may still do.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { usableNatsServer } from "../../../services/standalone/nats/binary.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const LAST_MS = 240_000;
const SOON = { timeout: 60_000, interval: 50 };

let server: TestFleet;
let client: FleetClient;
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-backup-"));
  server = await startFleet({ FLEET_GATEWAY_PORT: "0", FLEET_SCRUB_EVERY: "off", FLEET_MIRROR_DIR: "off" });
  client = await server.client("writer-1");
}, LAST_MS);
afterEach(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

const environment = (home = server.home) => ({
  FLEET_URL: server.url,
  FLEET_HOME: home,
  FLEET_SPOOL_DIR: join(home, "spool"),
});
const fleet = (...args: string[]) => callCli(args, { env: environment() });
const store = () => join(server.home, "store");

async function json(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect([exit, err]).toEqual([0, ""]);
  return JSON.parse(out);
}

async function written(taskId: string, goal: string, fence?: number) {
  const checkpoint = input({ goal });
  return client.createCheckpoint({ taskId, checkpoint, ...(fence !== undefined && { fence }) });
}

/** The fleet is killed and its store deleted; the bus keeps what it has. */
async function loseStore(): Promise<void> {
  await server.kill9();
  rmSync(store(), { recursive: true });
}

/** The bus without services: it takes commands into the queue. */
async function startBusAlone(): Promise<() => Promise<void>> {
  const binary = await usableNatsServer(projectRoot, process.env);
  const { port } = new URL(server.url);
  const child = spawn(binary.path, ["-c", join(server.home, "nats", "nats.conf"), "-p", port], {
    stdio: "ignore",
  });
  return async () => {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
  };
}

async function startAgain(): Promise<void> {
  await server.start();
  await expect.poll(() => fleet("status").then(({ exit }) => exit), SOON).toBe(0);
}

describe("fleet backup and restore", { timeout: LAST_MS }, () => {
  test("a backup that is made during writes has all that was committed before it, for its owner only", async () => {
    let isWriting = true;
    const committed: string[] = [];
    const writing = (async () => {
      for (let n = 0; isWriting; n += 1) {
        const { outcome, checkpointId } = await written(`busy-${n % 5}`, `n ${n}`);
        if (outcome === "committed") committed.push(String(checkpointId));
      }
    })();
    await expect.poll(() => committed.length, SOON).toBeGreaterThan(20);
    const before = [...committed];
    const made = await json("backup", join(folder, "one"));
    isWriting = false;
    await writing;
    expect(made).toMatchObject({ format: 1, incarnation: 1, fleet: expect.any(String) });
    expect(lstatSync(join(folder, "one")).mode & 0o777).toBe(0o700);
    for (const { path } of made.files) expect(lstatSync(join(folder, "one", path)).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["one"]);
    await loseStore();
    expect(await json("restore", join(folder, "one"))).toMatchObject({ backup_at: made.created_at });
    await startAgain();
    for (const id of before) expect(await client.getCheckpoint(id)).not.toBeNull();
    expect((await fleet("scrub", "start", "--wait")).exit).toBe(0);
  });

  test("agents of the lost future are refused, and others continue", async () => {
    const { fence } = await client.takeTask("task-1");
    await written("task-1", "before", fence);
    await json("backup", join(folder, "one"));
    const later = await server.client("writer-2");
    const taken = await later.takeTask("task-1");
    await later.createCheckpoint({
      taskId: "task-1",
      checkpoint: input({ goal: "lost" }),
      fence: taken.fence,
    });
    const born = await later.takeTask("born-later");
    await loseStore();
    await json("restore", join(folder, "one"));
    await startAgain();
    expect(await client.getTask("task-1")).toMatchObject({ owner: null, seq: 1 });
    expect(await client.getTask("born-later")).toBeNull();
    const stale = [
      ["task-1", fence],
      ["task-1", taken.fence],
    ] as const;
    for (const [task, old] of stale)
      await expect(written(task, "stale", Number(old))).rejects.toMatchObject({ code: "FENCED" });
    expect((await fleet("resume", "task-1")).out).toContain("before");
    const next = await client.takeTask("task-1");
    await written("task-1", "after", Number(next.fence));
    const again = await client.takeTask("born-later");
    await expect(written("born-later", "stale", Number(born.fence))).rejects.toMatchObject({
      code: "FENCED",
    });
    await written("born-later", "after", Number(again.fence));
    for (const [task, old] of stale)
      await expect(written(task, "stale", Number(old))).rejects.toMatchObject({ code: "FENCED" });
    expect((await fleet("scrub", "start", "--wait")).exit).toBe(0);
    expect((await fleet("audit", "verify", "task-1")).exit).toBe(0);
  });

  test("queued commands from after the backup are applied once, or become dead letters with the reason", async () => {
    const { fence } = await client.takeTask("owned");
    await written("owned", "before", fence);
    await json("backup", join(folder, "one"));
    await loseStore();
    const stopBus = await startBusAlone();
    await expect
      .poll(() => written("probe", "is the bus there?").then(({ outcome }) => outcome), SOON)
      .toBe("queued");
    const [old, fresh] = [await written("owned", "stale", fence), await written("fresh", "queued")];
    expect([old.outcome, fresh.outcome]).toEqual(["queued", "queued"]);
    await stopBus();
    await json("restore", join(folder, "one"));
    await startAgain();
    await expect.poll(() => client.getTask("fresh"), SOON).toMatchObject({ seq: 1 });
    await expect
      .poll(() => fleet("queue", "dead", "list", "--json").then(({ out }) => out), SOON)
      .toContain(String(old.checkpointId));
    const { out } = await fleet("queue", "dead", "list", "--json");
    expect(out).toContain("FENCED");
    expect(await client.getTask("owned")).toMatchObject({ seq: 1 });
    const { checkpoints } = await client.getCheckpointHistory("fresh");
    expect(checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual([String(fresh.checkpointId)]);
  });

  test("a restore into an empty home brings back the identity and the keys too", async () => {
    await written("task-1", "moved");
    const { fleet: identity } = await json("backup", join(folder, "one"));
    await server.terminate();
    const home = join(folder, "home");
    const { exit, out } = await callCli(["restore", join(folder, "one"), "--json"], {
      env: environment(home),
    });
    expect([exit, JSON.parse(out)]).toMatchObject([0, { fleet: identity }]);
    const moved = await startFleet({ FLEET_GATEWAY_PORT: "0" }, { home });
    try {
      const reader = await moved.client("reader-1");
      expect(await reader.getTask("task-1")).toMatchObject({ seq: 1 });
      expect(JSON.parse(readFileSync(join(home, "fleet.json"), "utf8")).fleet).toBe(identity);
    } finally {
      await moved.stop();
    }
  });

  test("what would lose or mix data is refused, and changes nothing", async () => {
    await written("task-1", "kept");
    const one = join(folder, "one");
    await json("backup", one);
    const refusal = async (...args: string[]) => {
      const { exit, err } = await fleet(...args);
      expect(exit).not.toBe(0);
      return err;
    };
    expect(await refusal("backup", one)).toContain("the folder of the backup exists");
    expect(await refusal("restore", one)).toContain("a fleet runs in this home");
    await server.terminate();
    expect(await refusal("restore", one)).toContain("a restore would lose what it holds");
    rmSync(store(), { recursive: true });
    mkdirSync(store());
    writeFileSync(join(store(), "mine.txt"), "kept");
    expect(await refusal("restore", one)).toContain("holds other files");
    expect(readFileSync(join(store(), "mine.txt"), "utf8")).toBe("kept");
    rmSync(store(), { recursive: true });
    const manifest = join(one, "manifest.json");
    const whole = readFileSync(manifest, "utf8");
    writeFileSync(manifest, whole.replace('"format": 1', '"format": 2'));
    expect(await refusal("restore", one)).toContain("a newer version of Fleet made the backup");
    writeFileSync(manifest, whole.replace("store/data.mdb", "../data.mdb"));
    expect(await refusal("restore", one)).toContain("no whole backup");
    writeFileSync(manifest, whole.replace(/"fleet": "[0-9a-f]+"/, '"fleet": "00"'));
    expect(await refusal("restore", one)).toContain("the home belongs to another fleet");
    writeFileSync(manifest, whole);
    appendFileSync(join(one, "store", "data.mdb"), "x");
    expect(await refusal("restore", one)).toContain("another hash");
    rmSync(manifest);
    expect(await refusal("restore", one)).toContain("missing");
    expect(existsSync(join(store(), "data.mdb"))).toBe(false);
    expect(await refusal("backup", join(folder, "two"))).toContain("there is no store to back up");
    expect(existsSync(join(folder, "two"))).toBe(false);
  });

  test("a backup and a restore that are killed leave nothing that looks whole, and are repeated", async () => {
    await written("task-1", "kept");
    const killedWhen = async (act: string, path: string, isBegun: () => boolean) => {
      const child = spawn(process.execPath, ["services/standalone/backup/main.ts", act, path], {
        cwd: projectRoot,
        env: { ...process.env, ...environment() },
        stdio: "ignore",
      });
      const ended = once(child, "exit");
      await expect.poll(isBegun, { timeout: 60_000, interval: 1 }).toBe(true);
      child.kill("SIGKILL");
      await ended;
    };
    const one = join(folder, "one");
    await killedWhen("backup", one, () => readdirSync(folder).length > 0);
    if (!existsSync(one)) await json("backup", one);
    expect(readdirSync(folder)).toEqual(["one"]);
    await loseStore();
    await killedWhen("restore", one, () => existsSync(`${store()}.restored`));
    if (!existsSync(join(store(), "data.mdb"))) await json("restore", one);
    await startAgain();
    expect(await client.getTask("task-1")).toMatchObject({ seq: 1, owner: null });
    expect(existsSync(`${store()}.restored`)).toBe(false);
  });
});
