// Backups of real fleets: made while agents write, restored after the store was lost, and what the lost future may still do.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
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
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { sealedManifest } from "../../../services/standalone/backup/manifest.ts";
import { usableNatsServer } from "../../../services/standalone/nats/binary.ts";
import { signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { fill, smallDisk } from "../../harness/small-disk.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const LAST_MS = 240_000;
const SOON = { timeout: 60_000, interval: 50 };
const PATIENT = { deadlineMs: 60_000 };
/** While there is no writer. */
const BRIEF = { deadlineMs: 5_000 };

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
const fleet = (...args: string[]) => callCli([...args, "--timeout", "60s"], { env: environment() });
const store = () => join(server.home, "store");

async function json(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect([exit, err]).toEqual([0, ""]);
  return JSON.parse(out);
}

async function written(taskId: string, goal: string, fence?: number, call = PATIENT) {
  const checkpoint = input({ goal });
  return client.createCheckpoint({ taskId, checkpoint, ...(fence !== undefined && { fence }), ...call });
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
  const exited = once(child, "exit");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await exited;
  };
  // Also when the test fails before it stops the bus.
  onTestFinished(stop);
  return stop;
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
    expect(made).toMatchObject({ format: 2, copied: "rows", incarnation: 1, fleet: expect.any(String) });
    expect(lstatSync(join(folder, "one")).mode & 0o777).toBe(0o700);
    for (const { path } of made.files) expect(lstatSync(join(folder, "one", path)).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["one"]);
    await loseStore();
    expect(await json("restore", join(folder, "one"))).toMatchObject({ backup_at: made.created_at });
    await startAgain();
    for (const id of before) expect(await client.getCheckpoint(id, PATIENT)).not.toBeNull();
    expect(await fleet("scrub", "start", "--wait")).toMatchObject({ exit: 0 });
  });

  test("agents of the lost future are refused, and others continue", async () => {
    const { fence } = await client.takeTask("task-1", PATIENT);
    await written("task-1", "before", fence);
    await json("backup", join(folder, "one"));
    const later = await server.client("writer-2");
    const taken = await later.takeTask("task-1", PATIENT);
    await later.createCheckpoint({
      taskId: "task-1",
      checkpoint: input({ goal: "lost" }),
      fence: taken.fence,
      ...PATIENT,
    });
    const born = await later.takeTask("born-later", PATIENT);
    const isLogged = () => client.admin.auditProof({ taskId: "born-later", seq: 1, ...PATIENT });
    await expect.poll(() => isLogged().then(Boolean, () => false), SOON).toBe(true);
    const note = join(folder, "kept.txt");
    expect((await fleet("audit", "log", "--out", note)).exit).toBe(0);
    await loseStore();
    await json("restore", join(folder, "one"));
    await startAgain();
    // An auditor's checkpoint of the lost future: the log states the restore.
    await expect.poll(() => fleet("audit", "consistent", note).then(({ exit }) => exit), SOON).toBe(5);
    expect((await fleet("audit", "consistent", note)).out).toMatch(
      /The store was restored at .* by human=\S+ from a backup of .*; \d+ entries after it are gone/,
    );
    expect(await client.getTask("task-1", PATIENT)).toMatchObject({ owner: null, seq: 1 });
    expect(await client.getTask("born-later", PATIENT)).toBeNull();
    const stale = [
      ["task-1", fence],
      ["task-1", taken.fence],
    ] as const;
    for (const [task, old] of stale)
      await expect(written(task, "stale", Number(old))).rejects.toMatchObject({ code: "FENCED" });
    expect((await fleet("resume", "task-1")).out).toContain("before");
    const next = await client.takeTask("task-1", PATIENT);
    await written("task-1", "after", Number(next.fence));
    const again = await client.takeTask("born-later", PATIENT);
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
    const { fence } = await client.takeTask("owned", PATIENT);
    await written("owned", "before", fence);
    await json("backup", join(folder, "one"));
    await loseStore();
    const stopBus = await startBusAlone();
    await expect
      .poll(
        () => written("probe", "is the bus there?", undefined, BRIEF).then(({ outcome }) => outcome),
        SOON,
      )
      .toBe("queued");
    const [old, fresh] = [
      await written("owned", "stale", fence, BRIEF),
      await written("fresh", "queued", undefined, BRIEF),
    ];
    expect([old.outcome, fresh.outcome]).toEqual(["queued", "queued"]);
    await stopBus();
    await json("restore", join(folder, "one"));
    await startAgain();
    await expect.poll(() => client.getTask("fresh", PATIENT), SOON).toMatchObject({ seq: 1 });
    await expect
      .poll(() => fleet("queue", "dead", "list", "--json").then(({ out }) => out), SOON)
      .toContain(String(old.checkpointId));
    const { out } = await fleet("queue", "dead", "list", "--json");
    expect(out).toContain("FENCED");
    expect(await client.getTask("owned", PATIENT)).toMatchObject({ seq: 1 });
    const { checkpoints } = await client.getCheckpointHistory("fresh", PATIENT);
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
    // The store had its key in use at the time of the backup. The new home makes another one.
    const signing_keys = [signingKeyFrom(readFileSync(join(server.home, "signing-key.pem"), "utf8")).id];
    expect([exit, JSON.parse(out)]).toMatchObject([0, { fleet: identity, signing_keys }]);
    const moved = await startFleet({ FLEET_GATEWAY_PORT: "0" }, { home });
    try {
      const reader = await moved.client("reader-1");
      expect(await reader.getTask("task-1", PATIENT)).toMatchObject({ seq: 1 });
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
      return `${err} (exit ${exit})`;
    };
    expect(await refusal("backup", one)).toMatch(/the folder of the backup exists.*\[OUTPUT\].*\(exit 73\)/s);
    expect(await refusal("restore", one)).toContain("a fleet runs in this home");
    await server.terminate();
    expect(await refusal("restore", one)).toMatch(
      /a restore would lose what it holds.*\[CONFLICT\].*\(exit 5\)/s,
    );
    rmSync(store(), { recursive: true });
    mkdirSync(store());
    const manifest = join(one, "manifest.json");
    const whole = readFileSync(manifest, "utf8");
    const { hash: _, ...content } = JSON.parse(whole);
    const files = [{ ...content.files[0], path: "nats/nats.conf" }, ...content.files];
    const forged = [{ fleet: "00" }, { files }].map((change) =>
      JSON.stringify(sealedManifest({ ...content, ...change })),
    );
    writeFileSync(manifest, whole.replace('"format": 2', '"format": 3'));
    expect(await refusal("restore", one)).toMatch(
      /a newer version of Fleet made the backup.*format=3.*nothing was restored; use Fleet .* \(exit 10\)/s,
    );
    writeFileSync(manifest, forged[0]!);
    expect(await refusal("restore", one)).toContain("the home belongs to another fleet");
    writeFileSync(manifest, forged[1]!);
    expect(await refusal("restore", one)).toContain("it is no file of a backup");
    writeFileSync(manifest, whole);
    expect(existsSync(join(store(), "data.mdb"))).toBe(false);
    expect(await refusal("backup", join(folder, "two"))).toContain("there is no store to back up");
    expect(existsSync(join(folder, "two"))).toBe(false);
  });

  test("every damage of a backup is found before a restore changes anything", async () => {
    await written("task-1", "kept");
    const one = join(folder, "one");
    const made = await json("backup", one);
    await server.terminate();
    const home = join(folder, "home");
    const manifest = join(one, "manifest.json");
    const whole = readFileSync(manifest, "utf8");
    const data = join(one, "store", "data.mdb");
    const bytes = readFileSync(data);
    const flipped = Buffer.from(bytes);
    flipped[bytes.length >> 1]! ^= 1;
    const damages: Record<string, [string, string | Buffer | null]> = {
      "a flipped bit": [data, flipped],
      "a longer file": [data, Buffer.concat([bytes, Buffer.from("x")])],
      "a shorter file": [data, bytes.subarray(0, -1)],
      "a file less": [data, null],
      "a manifest less": [manifest, null],
      "another time": [manifest, whole.replace(made.created_at, "2020-01-01T00:00:00.000Z")],
      "another fleet": [manifest, whole.replace(/"fleet": "[0-9a-f]+"/, '"fleet": "00"')],
      "another hash of a file": [manifest, whole.replace(made.files[0].sha256, "0".repeat(64))],
      "another hash of the manifest": [manifest, whole.replace(made.hash, "0".repeat(64))],
      "no hash of the manifest": [manifest, whole.replace('"hash"', '"mark"')],
      "a cut manifest": [manifest, whole.slice(0, -10)],
    };
    for (const [name, [path, content]] of Object.entries(damages)) {
      const before = readFileSync(path);
      if (content === null) rmSync(path);
      else writeFileSync(path, content);
      const call = ["restore", one, "--json"];
      const { exit, err } = await callCli(call, { env: environment(home) });
      expect([name, exit, JSON.parse(err).error.code]).toEqual([name, 8, "CORRUPT"]);
      expect(err).toContain("no whole backup");
      expect(existsSync(home)).toBe(false);
      writeFileSync(path, before);
    }
    // As an earlier version of Fleet wrote it: without a hash of its own.
    const { hash: _, ...unsealed } = { ...JSON.parse(whole), format: 1 };
    writeFileSync(manifest, JSON.stringify(unsealed));
    expect((await callCli(["restore", one], { env: environment(home) })).exit).toBe(0);
  });

  test("a full disk and a path below a file are named, with the next step, and nothing looks whole", async (context) => {
    for (let n = 0; n < 30; n += 1) await written("task-1", `step ${n} ${"x".repeat(1_000)}`);
    const file = join(folder, "file");
    writeFileSync(file, "");
    const below = await fleet("backup", join(file, "below"));
    expect([below.exit, below.err]).toEqual([73, expect.stringContaining(file)]);
    expect(below.err).toContain("name another path");
    expect(below.err).not.toContain(" at ");
    await json("backup", join(folder, "one"));
    const disk = smallDisk(1, context);
    fill(disk, 0.1);
    const full = await fleet("backup", join(disk, "one"));
    expect([full.exit, full.err]).toEqual([69, expect.stringContaining("the disk is full")]);
    expect([full.err, full.err]).toEqual([
      expect.stringContaining(disk),
      expect.stringContaining("make room"),
    ]);
    expect(readdirSync(disk)).toEqual(["ballast"]);
    await server.terminate();
    const home = join(folder, "home");
    const env = { ...environment(home), FLEET_STORE: `lmdb:${disk}` };
    const refused = await callCli(["restore", join(folder, "one")], { env });
    expect([refused.exit, refused.err]).toEqual([69, expect.stringContaining("the disk is full")]);
    expect(existsSync(join(disk, "data.mdb"))).toBe(false);
  });

  test("a store whose folder is a mount point is restored, and other files in it stay", async (context) => {
    const disk = smallDisk(64, context);
    await written("task-1", "moved");
    await json("backup", join(folder, "one"));
    await server.terminate();
    mkdirSync(join(disk, "lost+found"));
    const home = join(folder, "home");
    const FLEET_STORE = `lmdb:${disk}`;
    const restored = await callCli(["restore", join(folder, "one")], {
      env: { ...environment(home), FLEET_STORE },
    });
    expect([restored.exit, restored.err]).toEqual([0, ""]);
    expect(existsSync(join(disk, "lost+found"))).toBe(true);
    const moved = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_STORE }, { home });
    try {
      expect(await (await moved.client("reader-1")).getTask("task-1", PATIENT)).toMatchObject({ seq: 1 });
    } finally {
      await moved.stop();
    }
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
    const prepared = join(store(), "restored");
    await killedWhen("restore", one, () => existsSync(prepared));
    // Or the whole restore was faster than the kill.
    if (existsSync(join(store(), "data.mdb"))) rmSync(join(store(), "data.mdb"));
    mkdirSync(prepared, { recursive: true });
    await expect(server.start()).rejects.toThrow(
      /a restore of the store has not ended.*repeat `fleet restore/s,
    );
    await expect(openStore(`lmdb:${store()}?shared`)).rejects.toMatchObject({ exitCode: 69 });
    expect(existsSync(join(store(), "data.mdb"))).toBe(false);
    await json("restore", one);
    await startAgain();
    expect(await client.getTask("task-1", PATIENT)).toMatchObject({ seq: 1, owner: null });
    expect(existsSync(prepared)).toBe(false);
  });
});
