// What only a process of the `fleet` command shows: streams, signals and exit codes. All other tests call the command in
// their own process. Here one call of each group proves that a process does the same.

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../harness/free-port.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { cli, ended, environment, printed, resultOf, startCli } from "../../services/cli/process.ts";

/** A busy machine takes seconds to start a process. */
const PROCESSES_MS = 90_000;

let server: TestFleet;

const callOf = (standardInput?: string) => ({
  ...(standardInput !== undefined && { input: standardInput }),
  env: {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: "tester",
  },
});
const start = (args: readonly string[]) => startCli(args, callOf());

async function written(taskId: string, state = {}): Promise<string> {
  const client = await server.client();
  return String((await client.createCheckpoint({ taskId, checkpoint: input(state) })).checkpointId);
}

beforeAll(async () => {
  server = await startFleet();
  await written("same");
});
afterAll(() => server.stop());

describe("a process prints the same as a call in the process of the test", { timeout: PROCESSES_MS }, () => {
  test.each([
    "version",
    "checkpoint list --json",
    "checkpoint --task same --type qa",
    "task show nowhere",
    "fence take same --expected-fence 9 --json",
    "handoff list",
    "recovery list --json",
    "alerts list",
    "audit verify same",
    "access list --json",
    "help events",
  ])("fleet %s", async (line) => {
    const args = line.split(" ");
    const inProcess = await callCli(args, callOf());
    expect(inProcess.out + inProcess.err).not.toBe("");
    expect(await resultOf(start(args))).toEqual(inProcess);
  });

  test("fleet checkpoint, from a pipe", async () => {
    const document = {
      metadata: { task_id: "piped", agent_type: "qa" },
      execution_state: { phase: "testing" },
    };
    const command = "01900000-0000-7000-8000-00000000c11b";
    const args = ["checkpoint", "--quiet", "--command-id", command];
    const first = await resultOf(startCli(args, callOf(JSON.stringify(document))));
    expect(first).toEqual({ exit: 0, out: `chk-${command}\n`, err: "" });
    // The same command again, which is applied once.
    expect(await callCli(args, callOf(JSON.stringify(document)))).toEqual(first);
  });
});

describe("streams and signals", { timeout: PROCESSES_MS }, () => {
  test("a silent pipe does not stop a complete call, and ends an incomplete one", async () => {
    const silent = (args: string[]) => {
      const child = spawn(process.execPath, [cli, "checkpoint", ...args], {
        env: environment({ FLEET_URL: server.url, FLEET_HOME: server.home }),
        stdio: "pipe",
      });
      return Promise.all([ended(child), text(child.stderr)]);
    };
    expect(await silent(["--task", "silent", "--type", "qa", "--phase", "testing"])).toEqual([0, ""]);
    const [exit, err] = await silent(["--task", "silent", "--timeout", "300ms"]);
    expect(exit).toBe(64);
    expect(err).toContain("standard input stayed empty");
  });

  test("events are printed as they are published, until Ctrl-C", async () => {
    const child = start(["events", "--task", "events", "--json"]);
    const created = printed(child, /"type":"CHECKPOINT_CREATED".*"checkpointId":"([^"]+)"/);
    await printed(child, /Following task events/);
    const id = await written("events");
    expect((await created)[1]).toBe(id);
    child.kill("SIGINT");
    expect(await ended(child)).toBe(0);
  });

  test("tasks are printed as they change, until Ctrl-C", async () => {
    const child = start(["tasks", "--follow", "--type", "implementation", "--json"]);
    const changed = printed(child, /^\{.*"task_id":"followed".*\}$/m);
    await printed(child, /Following tasks/);
    await written("followed", { progress_percent: 40 });
    expect(JSON.parse((await changed)[0])).toMatchObject({ state: "active", seq: 1, progress_percent: 40 });
    child.kill("SIGINT");
    expect(await ended(child)).toBe(0);
  });

  test.skipIf(!existsSync("/dev/full"))(
    "an output that cannot be written is an error without a stack",
    async () => {
      const call = `"$0" "$@" > /dev/full`;
      const child = spawn("sh", ["-c", call, process.execPath, cli, "version"], {
        env: environment({}),
        stdio: ["ignore", "ignore", "pipe"],
      });
      expect(await Promise.all([text(child.stderr), ended(child)])).toEqual([
        "error: the output cannot be written: ENOSPC\n",
        73,
      ]);
    },
  );

  test("a pipe that its reader closes early is not an error", async () => {
    const child = start(["--help"]);
    child.stdout?.destroy();
    expect(await Promise.all([text(child.stderr!), ended(child)])).toEqual(["", 0]);
  });
});

describe("fleet up", { timeout: PROCESSES_MS }, () => {
  test("starts a fleet, finds a running one, and stops on Ctrl-C", async () => {
    const port = await freePort();
    const own = await mkdtemp(join(tmpdir(), "fleet-up-"));
    const args = ["up", "--port", String(port), "--home", own, "--ops-port", "0"];
    const first = start(args);
    try {
      const [, pid] = await printed(first, /"pid":(\d+).*Fleet is up/s);
      // A command that waited beside its fleet would keep a hundred megabytes, and leave the fleet when it is killed.
      expect(Number(pid)).toBe(first.pid);
      const second = await resultOf(start(args));
      expect(second).toEqual({
        exit: 0,
        out: `A fleet is already running at nats://127.0.0.1:${port} (from ${join(own, "addresses.json")}).\n`,
        err: "",
      });
      expect(JSON.parse(await readFile(join(own, "addresses.json"), "utf8")).busUrl).toContain(String(port));
      first.kill("SIGINT");
      expect(await ended(first)).toBe(0);
    } finally {
      first.kill("SIGTERM");
      await ended(first);
      await rm(own, { recursive: true, force: true });
    }
  });
});
