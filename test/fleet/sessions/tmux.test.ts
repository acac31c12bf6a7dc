// A scripted agent in a tmux window of a real runner, with Fleet's hooks: a turn, the request for a checkpoint, a compaction, a restart
// with the checkpoint message, and a runner that is killed before it has sent that message (seed 001, flows 1 to 3 and invariant 6).

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { startRunner } from "../../harness/processes/runner-process.ts";
import type { TestService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

const hasTmux = spawnSync("tmux", ["-V"]).status === 0;
if (!hasTmux) console.info("an agent in tmux with hooks: skipped, because there is no tmux");

const PROGRAM = join(projectRoot, "test/fleet/sessions/scripted-agent.program.ts");
const SOON = { timeout: 120_000, interval: 50 };
const TASK = "login";
/** No agent counts as failed while its runner is killed and starts again, which takes over 10 s on a busy machine. */
const POLICY = { defaults: { recovery: { silence_ms: 120_000 } } };

interface Seen {
  readonly what: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly pid: number;
  readonly text?: string;
  readonly decision?: string | null;
  readonly reason?: string;
  readonly resumed?: boolean;
}

describe.runIf(hasTmux)("seed 001: a scripted agent in a tmux window", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-scripted-"));
  const seenFile = join(folder, "seen.jsonl");
  let fleet: TestFleet;
  let client: FleetClient;
  let runner: TestService;
  let agentId = "";

  const start = () => {
    const command = [process.execPath, PROGRAM, seenFile];
    const agent = {
      ...{
        launcher: "tmux",
        prompt: "paste",
        command,
        resume_command: [...command, "--continue"],
        cwd: folder,
      },
      env: { FLEET_HOOK_DIR: join(folder, "hooks"), FLEET_HOOK_WAIT: "20000" },
    };
    return startRunner(fleet, { implementation: agent }, { FLEET_OPS_PORT: "0" });
  };
  const seen = (what: string): Seen[] => {
    try {
      const lines = readFileSync(seenFile, "utf8").trim().split("\n");
      return lines.map((line) => JSON.parse(line) as Seen).filter((one) => one.what === what);
    } catch {
      return [];
    }
  };
  const seenTimes = (what: string, times: number) => expect.poll(() => seen(what).length, SOON).toBe(times);
  const restart = () =>
    callCli(["agents", "restart", agentId, "--timeout", "60s"], { env: { FLEET_HOME: fleet.home } });
  const own = async () =>
    (await client.getCheckpointHistory(TASK, { order: "oldest", deadlineMs: 20_000 })).checkpoints.filter(
      ({ metadata }) => metadata.agent_id === agentId && metadata.trigger.details === undefined,
    );

  beforeAll(async () => {
    const policy = join(folder, "policy.json");
    writeFileSync(policy, JSON.stringify(POLICY));
    fleet = await startFleet({ FLEET_POLICY: policy });
    client = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
    runner = await start();
  });
  afterAll(async () => {
    await runner?.terminate();
    const log = join(folder, "hooks", "hook.log");
    const pids = new Set(readFileSync(log, "utf8").match(/(?<="pid":)\d+/g));
    for (const pid of pids) spawnSync("kill", ["-9", pid]);
    const socket = createHash("sha256").update(join(fleet.home, "runner")).digest("hex").slice(0, 12);
    spawnSync("tmux", ["-L", `fleet-${socket}`, "kill-server"]);
    await fleet?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test("flow 1 and 3: after a long turn it is asked once, answers with a checkpoint, and is not asked again", async () => {
    await client.createCheckpoint({
      taskId: TASK,
      checkpoint: {
        metadata: { agent_type: "implementation" },
        execution_state: { phase: "handoff", goal: "Add a login form", pending_items: ["Write the form"] },
      },
    });
    await seenTimes("prompt", 1);
    agentId = (await client.getTask(TASK, { deadlineMs: 20_000 }))?.owner ?? "";
    expect(agentId).toMatch(/^implementation-/);
    await seenTimes("ready", 1);
    expect(seen("stopped").map(({ decision }) => decision)).toEqual(["block", null]);
    expect(seen("stopped")[0]?.reason).toContain(`fleet checkpoint --task ${TASK} --fence 1`);
    expect((await own()).map(({ execution_state }) => execution_state.completed_items[0]?.title)).toEqual([
      "Wrote the form",
    ]);
  });

  test("after the compaction its context begins with its own checkpoint", () => {
    const [context] = seen("context");
    expect(context?.text).toContain("Add a login form");
    expect(context?.text).toContain("Wrote the form");
    expect(context?.text).toContain("Run test/form.test.ts");
  });

  test("flow 2 and invariant 6: a restart continues the session, and five seconds later it is asked for a checkpoint, without the threshold", async () => {
    const before = Date.now();
    const { exit, out, err } = await restart();
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    expect(out).toContain("was restarted");
    await seenTimes("started", 2);
    const [first, second] = seen("started");
    expect(second).toMatchObject({ resumed: true });
    expect(second?.pid).not.toBe(first?.pid);
    await seenTimes("message", 1);
    expect(seen("message")[0]?.at).toBeGreaterThanOrEqual(before + LIMITS.restart_injection_ms);
    await seenTimes("ready", 2);
    // Its answer is not asked again.
    expect(seen("stopped").map(({ decision }) => decision)).toEqual(["block", null, null]);
    expect((await own()).at(-1)?.execution_state.completed_items[0]?.title).toContain("after restart");
    expect(await client.getTask(TASK, { deadlineMs: 20_000 })).toMatchObject({ owner: agentId, fence: 1 });
  });

  test("a runner that is killed before it has sent the message leaves it to the next one", async () => {
    expect((await restart()).exit).toBe(0);
    await runner.kill9();
    await seenTimes("started", 3);
    runner = await start();
    await seenTimes("message", 2);
    await seenTimes("ready", 3);
    expect(await client.getTask(TASK, { deadlineMs: 20_000 })).toMatchObject({ owner: agentId, fence: 1 });
  });

  test("a checkpoint can be asked for at any time", async () => {
    const asked = await callCli(["agents", "ask", agentId, "--timeout", "60s"], {
      env: { FLEET_HOME: fleet.home },
    });
    expect(asked).toMatchObject({ exit: 0, err: "" });
    await seenTimes("message", 3);
    await seenTimes("ready", 4);
  });

  test("an agent that no runner has cannot be restarted", async () => {
    const { exit, err } = await callCli(["agents", "restart", "nobody-1"], {
      env: { FLEET_HOME: fleet.home },
    });
    expect(exit).toBe(4);
    expect(err).toContain("no runner has this agent");
    expect(err).toContain("fleet agents list");
  });
});
