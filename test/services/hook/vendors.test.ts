// The hooks of each vendor against a real fleet, with real hook processes: a turn with a request for a checkpoint, the automatic
// checkpoint, and a compaction after which the session continues from it.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HOOK_VENDOR_NAMES } from "../../../shared/sdk/hooks/vendors.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf, transcriptOf, type VendorPayloads } from "./payloads.ts";

let fleet: TestFleet;
let reader: FleetClient;
const PATIENT = { deadlineMs: 20_000 };

beforeAll(async () => {
  fleet = await startFleet();
  reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
});
afterAll(() => fleet?.stop());

describe.each(HOOK_VENDOR_NAMES)("%s", (vendor) => {
  let hooks: TestHooks;
  let payloads: VendorPayloads;
  const task = `${vendor}-task`;
  const agent = { FLEET_AGENT_ID: `${vendor}-agent`, FLEET_TASK: task };

  beforeAll(() => {
    hooks = openHooks(vendor, { FLEET_HOME: fleet.home, ...agent });
    const cwd = join(hooks.folder, "work");
    mkdirSync(cwd);
    writeFileSync(join(cwd, "login.ts"), "export {};\n");
    const transcript = join(hooks.folder, "transcript.jsonl");
    writeFileSync(transcript, transcriptOf(vendor, { cwd, transcript }));
    payloads = payloadsOf(vendor, `${vendor}-session`, { cwd, transcript });
  });
  afterAll(() => hooks?.stop());

  test("a new session continues nothing, and its program gets no answer", async () => {
    expect(await hooks.run(...payloads.start("startup"))).toEqual({ exit: 0, out: "", err: "" });
  });

  test("after a turn of more than 30 seconds the agent is asked for a checkpoint, once", async () => {
    hooks.keep(...payloads.prompt("Add a login form"), 90);
    hooks.keep(...payloads.edit("login.ts"), 80);
    hooks.keep(...payloads.test("npm test"), 50);
    await hooks.drained();
    const { exit, out } = await hooks.run(...payloads.stop(false, "The form is done."));
    expect(exit).toBe(0);
    const answer = JSON.parse(out);
    expect(Object.keys(answer).sort()).toEqual(["decision", "reason"]);
    expect(answer.decision).toBe(vendor === "gemini" ? "deny" : "block");
    expect(answer.reason).toContain("[Fleet checkpoint]");
    expect(answer.reason).toContain(`fleet checkpoint --task ${task}`);
    expect((await hooks.run(...payloads.stop(true, "Written."))).out).toBe("");
    expect((await hooks.run(...payloads.stop(false, "Still done."))).out).toBe("");
  });

  test("the work is saved although the model called no tool of Fleet", async () => {
    await hooks.drained();
    const latest = await reader.getLatestCheckpoint(task, { deadlineMs: 20_000 });
    expect(latest?.metadata).toMatchObject({ agent_id: `${vendor}-agent`, trigger: { reason: "turn_end" } });
    expect(latest?.execution_state).toMatchObject({ phase: "implementing", goal: "Add a login form" });
    expect(latest?.execution_state.completed_items.map((item) => item.title)).toEqual([
      "Changed login.ts",
      "Ran npm test, which passed",
    ]);
    expect(latest?.metrics).toMatchObject({
      tools_invoked: 2,
      files_modified: ["login.ts"],
      tests_status: { passed: 1 },
    });
    expect(latest?.metrics.context_tokens).toBe(41_000);
    expect(latest?.recovery.workspace?.files?.map(({ path }) => path)).toEqual(["login.ts"]);
  });

  test("a compaction saves what is new, and the session continues from it within the vendor's limit", async () => {
    const before = await reader.getCheckpointHistory(task, { deadlineMs: 20_000 });
    await hooks.run(...payloads.edit("logout.ts"));
    await hooks.run(...payloads.compact);
    await hooks.drained();
    const after = await reader.getCheckpointHistory(task, { deadlineMs: 20_000 });
    expect(after.checkpoints.length).toBe(before.checkpoints.length + 1);
    expect(after.checkpoints[0]?.metadata.trigger.reason).toBe("compaction");
    // Gemini begins no session after a compaction.
    const isPrompt = vendor === "gemini";
    const { out } = await hooks.run(
      ...(isPrompt ? payloads.prompt("What is left?") : payloads.start("compact")),
    );
    const { hookSpecificOutput } = JSON.parse(out);
    expect(hookSpecificOutput.hookEventName).toBe(isPrompt ? "BeforeAgent" : "SessionStart");
    expect(hookSpecificOutput.additionalContext).toContain("Add a login form");
    expect(hookSpecificOutput.additionalContext).toContain("logout.ts");
    expect(hookSpecificOutput.additionalContext.length).toBeLessThanOrEqual(
      vendor === "codex" ? 10_000 : 9_500,
    );
  });

  test("US-304 a compaction of a specialist or of a coordinator is detected by its mission, once and at once", async () => {
    const [coordinated, own] = [`${vendor}-mission`, `${vendor}-own`];
    const start = async (id: string) => {
      await reader.mission(id).start({ title: "Add a login form" }, PATIENT);
      const sorties = [{ title: "the form", assignedTo: `${vendor}-agent` }];
      await reader.mission(id).addSorties(sorties, PATIENT);
    };
    await start(coordinated);
    await reader.mission(own).start({ title: "Add a logout" }, PATIENT);
    // One event of a helper that was killed before it removed the event is handled again.
    hooks.keep(...payloads.compact, 1);
    await hooks.run(...payloads.edit("session.ts"), { FLEET_TASK: own });
    await hooks.drained();
    await hooks.run(...payloads.compact, { FLEET_TASK: own });
    await hooks.drained();
    const lapses = async (id: string) => {
      const { entries } = await reader.getAudit(id, { ...PATIENT, limit: 100 });
      return entries
        .map(({ entry }) => JSON.parse(entry).op)
        .filter((op) => /^mission_(lapse|recov)/.test(op));
    };
    expect(await lapses(own)).toEqual(["mission_lapse", "mission_recoverable"]);
    expect(await lapses(coordinated)).toEqual(
      Array.from({ length: 2 }, () => ["mission_lapse", "mission_recoverable"]).flat(),
    );
    const { checkpoint } = await reader.latest(own, PATIENT);
    expect(checkpoint).toMatchObject({
      metadata: { trigger: { reason: "compaction" } },
      fleet: { mission_id: own },
    });
    for (const id of [own, coordinated])
      expect((await reader.mission(id).state(PATIENT))?.silence?.checkpoint_id).toEqual(expect.any(String));
    for (const id of [own, coordinated]) await reader.mission(id).update({ status: "cancelled" }, PATIENT);
  });

  test("the checkpoint message as a prompt begins no new turn, another prompt does", async () => {
    await hooks.run(...payloads.prompt("[Fleet checkpoint]\n\nYou have reached the end of a turn."));
    await hooks.run(...payloads.test("make"));
    expect((await hooks.run(...payloads.stop(false, "Written."))).out).toBe("");
    await hooks.drained();
    const [newest] = (await reader.getCheckpointHistory(task, { deadlineMs: 20_000 })).checkpoints;
    expect(newest?.execution_state.goal).toBe("Add a login form");
  });
});
