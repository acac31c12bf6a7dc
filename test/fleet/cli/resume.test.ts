// `fleet resume` as operators, scripts and hooks use it: a standalone fleet, and a repository that changes in the
// meantime.

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CheckpointInput, ReceivedOffer } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";
import {
  commit,
  emptyFolder,
  hashOfFolder,
  newRepository,
  removeFolders,
  run,
  write,
} from "../../shared/sdk/workspace/repositories.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 90_000;

let server: TestFleet;

function fleet(...args: string[]): Promise<Result> {
  const env = {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: "tester",
  };
  return callCli(args, { env });
}

async function written(
  task: string,
  state: Partial<CheckpointInput["execution_state"]> = {},
): Promise<string> {
  const client = await server.client();
  const outcome = await client.createCheckpoint({
    taskId: task,
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing", ...state } },
  });
  return String(outcome.checkpointId);
}

beforeAll(async () => {
  server = await startFleet();
});

afterAll(async () => {
  removeFolders();
  await server.stop();
});

describe("fleet resume", { timeout: CALLS_MS }, () => {
  test("prints the prompt and nothing else", async () => {
    const older = await written("print", { pending_items: ["Write the tests"] });
    const id = await written("print", { resume_pointer: { next_action: "Run the tests" } });
    const { exit, out, err } = await fleet("resume", "print");
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    expect(out).toMatch(/^# Continue task print\n/);
    expect(out).toContain(`From checkpoint chk-${id} (version 1, number 2 of the task)`);
    expect(out).toContain("## Next action\n> Run the tests\n");
    expect(out).toMatch(/when a step is done\.\n$/);

    const earlier = await fleet("resume", "print", "--checkpoint", `chk-${older}`, "--style", "pointer");
    expect(earlier.out).toMatch(/^# Resuming from Checkpoint of task print\n/);
    expect(earlier.out).toContain("> Write the tests\n");
  });

  test("names a command that shows the items that were left out", async () => {
    const completed_items = Array.from({ length: 300 }, (_, at) => `Finished part ${at}`);
    await written("large", { completed_items });
    const { out } = await fleet("resume", "large", "--budget", "700");
    const named = /`(?:npx )?fleet (checkpoint show [^`]+)`/.exec(out)?.[1] ?? "";
    expect(out).toMatch(/- Accomplished: \d+ left out \(`\.execution_state\.completed_items`\)/);
    const shown = await fleet(...named.split(" "));
    expect(JSON.parse(shown.out).execution_state.completed_items).toHaveLength(300);
  });

  test("writes the prompt to a private file, and prints its summary as JSON", async () => {
    const id = await written("file", { resume_pointer: { next_action: "Continue" } });
    const path = join(emptyFolder(), "prompt.md");
    const { exit, out, err } = await fleet("resume", "file", "--out", path, "--json", "--budget", "9500c");
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    const text = readFileSync(path, "utf8");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(out)).toEqual({
      task_id: "file",
      state: "active",
      owner: null,
      fence: 0,
      checkpoint_id: id,
      version: 1,
      agent_id: expect.any(String),
      style: "standard",
      tokens: expect.any(Number),
      characters: text.length,
      tokenizer: "o200k_base",
      secrets: 0,
      left_out: [],
      workspace: null,
      out: path,
    });
    const printed = await fleet("resume", "file", "--json", "--budget", "9500c");
    expect(JSON.parse(printed.out).prompt).toBe(text);
  });

  test("seed 004 best practice 6 (test resume): compares the workspace with the checkpoint, and changes nothing", async () => {
    const folder = newRepository();
    write(folder, "src/b.ts", "half done");
    const args = [
      "checkpoint",
      "-t",
      "work",
      "--type",
      "qa",
      "--phase",
      "testing",
      "--next",
      "Finish src/b.ts",
    ];
    expect((await fleet(...args, "--workspace", folder)).exit).toBe(0);
    const before = hashOfFolder(folder);

    const same = await fleet("resume", "work", "--workspace", folder);
    expect({ exit: same.exit, err: same.err }).toEqual({ exit: 0, err: "" });
    expect(same.out).toContain("## Workspace\nThe workspace is as the checkpoint recorded it.\n");
    expect(hashOfFolder(folder)).toBe(before);

    commit(folder, "src/c.ts", "of another agent");
    run(folder, "checkout", "--quiet", "-b", "feature", "HEAD~1");
    const dry = await fleet("resume", "work", "--workspace", folder, "--dry-run");
    expect(dry.exit).toBe(0);
    expect(dry.err).toContain(
      "the workspace differs from its state in the checkpoint (grade=conflict, worst=file_missing",
    );
    expect(dry.out).toContain(`Workspace: conflict in ${folder}`);
    expect(dry.out).toContain("  - conflict  src/b.ts: the file is not here");
    expect(dry.out).toContain(
      "  - drift  another branch is checked out, at the recorded commit (recorded main, now feature)",
    );
    expect(dry.out).toMatch(/^Prompt: standard, \d+ tokens, [\d,]+ characters, not written$/m);
    expect(dry.out).not.toContain("## Next action");

    const answer = await fleet("resume", "work", "--workspace", folder, "--json");
    expect(JSON.parse(answer.out)).toMatchObject({ workspace: { folder, grade: "conflict" } });
    expect(JSON.parse(answer.out).prompt).toContain("> - conflict: src/b.ts the file is not here");
    expect((await fleet("resume", "work", "--no-workspace", "--dry-run")).out).toContain(
      "Workspace: not compared",
    );
  });

  test("prints the prompt of the offer while the task is offered, and that of the checkpoint afterwards", async () => {
    const client = await server.client();
    const offered = Promise.withResolvers<ReceivedOffer>();
    const release = Promise.withResolvers<void>();
    const stop = await client.onOffer("qa", async (offer) => {
      offered.resolve(offer);
      await release.promise;
    });
    const earlier = await written("offered", { pending_items: ["Look around"] });
    const { checkpointId } = await client.createCheckpoint({
      taskId: "offered",
      checkpoint: {
        metadata: { agent_type: "implementation" },
        execution_state: { phase: "handoff", pending_items: ["Write the tests"], completed_items: ["Code"] },
      },
      handoff: { toAgentType: "qa", nextPhase: "testing", reason: "The code is done." },
    });
    const { data } = await offered.promise;
    expect(data.prompt).toContain(
      `Handed over to an agent of type qa, for phase testing by handoff ${checkpointId}`,
    );
    const shown = async (...args: string[]) =>
      JSON.parse((await fleet("resume", "offered", "--json", ...args)).out).prompt;
    expect(await shown()).toBe(data.prompt);
    expect(await shown("--checkpoint", checkpointId)).toBe(data.prompt);
    expect(await shown("--style", "pointer")).toContain("Handed over to an agent of type qa");
    expect(await shown("--checkpoint", earlier)).not.toContain("Handed over");

    const { task } = await (await offered.promise).acknowledge();
    release.resolve();
    expect(await shown()).toBe(data.prompt);
    await task.checkpoint({ metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } });
    expect(await shown()).not.toContain("Handed over");
    await stop();
  });

  test("warns that a task has ended", async () => {
    const id = await written("ended", {});
    expect((await fleet("checkpoint", "finalize", id, "--status", "cancelled")).exit).toBe(0);
    const { exit, out, err } = await fleet("resume", "ended");
    expect(exit).toBe(0);
    expect(err).toContain("the task has ended (state=cancelled)");
    expect(out).toContain("## Next action\nNone was recorded.");
  });

  test.each<[string, string[], number, RegExp]>([
    [
      "a task that does not exist",
      ["unknown"],
      4,
      /there is no such task \(task_id=unknown\)|there is no such task/,
    ],
    [
      "a checkpoint of another task",
      ["print", "--checkpoint", "019bef72-3d00-7a31-b5c4-0d6e2f9a1b01"],
      4,
      /the task has no such checkpoint/,
    ],
    [
      "a budget that is too small for the fixed parts",
      ["print", "--budget", "50"],
      65,
      /budget\.tokens.*at least \d+ for this checkpoint/s,
    ],
    [
      "a file that cannot be written",
      ["print", "--out", "/nowhere/prompt.md"],
      64,
      /cannot be written: ENOENT/,
    ],
  ])("refuses %s", async (_, args, code, text) => {
    const { exit, out, err } = await fleet("resume", ...args);
    expect({ exit, out }).toEqual({ exit: code, out: "" });
    expect(err).toMatch(text);
  });
});
