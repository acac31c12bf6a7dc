/** Commands reach the fleet of their folder and no other: real fleets of two projects, one of which dies and loses its port to a third. */
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { connect, type FleetClient, type FleetWarning } from "../../shared/sdk/sdk.ts";
import { filesWith } from "../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const start = process.cwd();
const root = mkdtempSync(join(tmpdir(), "fleet-right-"));
const project = join(root, "project");
const other = join(root, "other");
const deep = join(project, "packages", "app");
/** No address, no home: only the folder counts. */
const env = { FLEET_URL: "", FLEET_HOME: "", XDG_STATE_HOME: process.env.XDG_STATE_HOME ?? root };

let fleet: TestFleet;
let second: TestFleet;
const clients: FleetClient[] = [];

beforeAll(async () => {
  mkdirSync(deep, { recursive: true });
  mkdirSync(other);
  [fleet, second] = await Promise.all([
    startFleet({}, { home: join(project, ".fleet") }),
    startFleet({}, { home: join(other, ".fleet") }),
  ]);
});
afterEach(() => process.chdir(start));
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await Promise.all([fleet?.stop(), second?.stop()]);
  rmSync(root, { recursive: true, force: true });
});

function fleetIn(folder: string, ...args: string[]) {
  process.chdir(folder);
  return callCli(args, { env });
}

const write = (task: string) =>
  ["checkpoint", "--task", task, "--type", "qa", "--phase", "testing", "--next", "Test the login"] as const;

describe("while all fleets run", () => {
  test("a command reaches the fleet of its folder, also from a subfolder", async () => {
    expect(await fleetIn(deep, ...write("deep"))).toMatchObject({ exit: 0, err: "" });
    expect(await fleetIn(other, ...write("wide"))).toMatchObject({ exit: 0, err: "" });
    const [own, foreign] = [await fleet.client(), await second.client()];
    // On a busy machine, the commands may be queued.
    await expect.poll(() => own.getTask("deep")).not.toBeNull();
    await expect.poll(() => foreign.getTask("wide")).not.toBeNull();
    expect([await own.getTask("wide"), await foreign.getTask("deep")]).toEqual([null, null]);
  });

  test("status names the identity that is recorded in the folder", async () => {
    const { out } = await fleetIn(deep, "status", "--json");
    const record = JSON.parse(readFileSync(join(project, ".fleet", "addresses.json"), "utf8"));
    expect(JSON.parse(out)).toMatchObject({ fleet: record.fleet });
    expect(record.fleet).toMatch(/^[0-9a-f]{16}$/);
  });

  test("an explicit setting wins over the folder", async () => {
    process.chdir(deep);
    const home = await callCli(["task", "show", "wide"], { env: { ...env, FLEET_HOME: second.home } });
    const option = await callCli(["task", "show", "wide", "--url", second.url], {
      env: { ...env, FLEET_HOME: second.home },
    });
    expect([home.exit, option.exit]).toEqual([0, 0]);
  });

  test("up in a subfolder finds the fleet of the project", async () => {
    const { out, exit } = await fleetIn(deep, "up");
    expect([exit, out]).toEqual([
      0,
      `A fleet is already running at ${fleet.url} (from ${join(project, ".fleet/addresses.json")}).\n`,
    ]);
  });

  test("without a record, the default address is named", async () => {
    process.chdir(root);
    const text = await callCli(["task", "show", "x", "--timeout", "200ms"], { env });
    expect(text.err).toMatch(/^warning: no fleet is recorded here.* \(url=nats:\/\/127\.0\.0\.1:4222\)\n/);
    const json = await callCli(["task", "show", "x", "--timeout", "200ms", "--json"], { env });
    expect(JSON.parse(json.err.split("\n")[0] ?? "")).toMatchObject({
      warning: { code: "DEFAULT_ADDRESS", details: { url: "nats://127.0.0.1:4222" } },
    });
    const warnings: FleetWarning[] = [];
    const options = { env, connectTimeoutMs: 200, onWarning: (one: FleetWarning) => warnings.push(one) };
    const client = await connect(options).catch(() => undefined);
    await client?.close();
    expect(warnings).toMatchObject([{ code: "DEFAULT_ADDRESS" }]);
  });
});

describe("a fleet that is down", () => {
  let client: FleetClient;
  const warnings: FleetWarning[] = [];
  const stored = async () => {
    const own = await fleet.client();
    const tasks = await Promise.all(["lived", "spooled"].map((task) => own.getTask(task)));
    return tasks.map((task) => task?.task_id);
  };

  test("keeps its folder: commands are spooled for it", async () => {
    process.chdir(deep);
    client = await connect({ env, agentId: "lasting", onWarning: (one) => warnings.push(one) });
    clients.push(client);
    await fleet.terminate();
    const spooled = await fleetIn(deep, ...write("spooled"), "--json");
    expect(JSON.parse(spooled.out)).toMatchObject({ status: "spooled" });
    // From any folder.
    const { out } = await fleetIn(root, "spool", "status", "--json");
    expect(JSON.parse(out).spools).toMatchObject([
      {
        home: join(project, ".fleet"),
        fleet_state: "recorded",
        path: dirname(join(JSON.parse(spooled.out).spool, "open")),
        commands: 1,
      },
    ]);
  });

  test.each([
    ["without credentials", "off"],
    ["with its own credentials", "on"],
  ])("gets nothing written to another fleet on its port, %s", async (_, auth) => {
    const { port } = new URL(fleet.url);
    const third = await startFleet({ FLEET_AUTH: auth }, { port });
    try {
      const refused = await fleetIn(deep, ...write("foreign"), "--json");
      const { error } = JSON.parse(refused.err);
      expect([refused.exit, refused.out]).toEqual([5, ""]);
      expect(error).toMatchObject({
        code: "CONFLICT",
        message: "another fleet answers at the recorded address; nothing was sent to it",
        details: { url: fleet.url, recorded_in: join(project, ".fleet") },
      });
      expect(error.hint).toContain("Start the recorded one on another port");
      expect((await fleetIn(deep, "status")).exit).toBe(5);
      // A client that was connected to the fleet finds the other one when it reconnects.
      if (auth === "off") {
        await expect.poll(() => warnings.map(({ code }) => code)).toEqual(["OTHER_FLEET"]);
        const outcome = await client.createCheckpoint({ taskId: "lived", checkpoint: input() });
        expect(outcome.outcome).toBe("spooled");
        await expect(client.getTask("lived")).rejects.toMatchObject({ code: "CONFLICT" });
      }
      const foreign = await third.client();
      expect((await foreign.searchCheckpoints({})).checkpoints).toEqual([]);
    } finally {
      await third.stop();
    }
  });

  test("gets what was spooled when it is back", async () => {
    await fleet.start();
    await expect.poll(() => client.pending()).toMatchObject({ commands: 0 });
    expect(await fleetIn(root, "spool", "flush", "--timeout", "1m")).toMatchObject({ exit: 0, err: "" });
    await expect.poll(stored).toEqual(["lived", "spooled"]);
  });
});

test("commands for a fleet that was deleted stay until an operator sends them to the new one", async () => {
  const { port } = new URL(second.url);
  await second.terminate();
  expect((await fleetIn(other, ...write("late"))).exit).toBe(0);
  rmSync(second.home, { recursive: true });
  const reborn = await startFleet({}, { home: second.home, port });
  try {
    expect((await fleetIn(other, ...write("fresh"))).exit).toBe(0);
    const listed = JSON.parse((await fleetIn(root, "spool", "status", "--json")).out).spools;
    expect(listed).toMatchObject([{ tasks: ["late"], fleet_state: "replaced", home: second.home }]);
    const flushed = await fleetIn(other, "spool", "flush", "--json");
    expect([flushed.exit, JSON.parse(flushed.out).remaining]).toEqual([69, 1]);
    const client = await reborn.client();
    expect([await client.getTask("late"), await client.getTask("wide")]).toEqual([null, null]);
    await expect.poll(() => client.getTask("fresh")).not.toBeNull();
    const id = listed[0].fleet.slice(0, 8);
    for (const name of filesWith(listed[0].path, '"late"')) appendFileSync(name, "\nthe rest of a line");
    const redirected = await fleetIn(other, "spool", "redirect", id, "--timeout", "1m");
    expect(redirected).toMatchObject({
      exit: 69,
      out: expect.stringMatching(
        /^Sent: 1 command; 1 damaged line set aside; `.*fleet spool status` says why\n$/,
      ),
    });
    await expect.poll(() => client.getTask("late")).not.toBeNull();
  } finally {
    await reborn.stop();
  }
});
