// Recorded sessions of the vendors' programs, replayed through real hook processes against a real fleet: a turn with a failed command,
// a compaction, /clear, and what the program does after an error of its vendor.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shortHash } from "../../../services/hook/event.ts";
import { HOOK_VENDOR_NAMES, type HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { type HookRun, openHooks, type TestHooks } from "./hook-process.ts";
import { type HookCall, payloadsOf, recordedCalls, transcriptOf } from "./payloads.ts";

let fleet: TestFleet;
let reader: FleetClient;

beforeAll(async () => {
  fleet = await startFleet();
  reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
});
afterAll(() => fleet?.stop());

const isStop = ([event]: HookCall): boolean => event === "Stop" || event === "AfterAgent";
const contextOf = ({ out }: HookRun): string => JSON.parse(out).hookSpecificOutput.additionalContext;

function openSession(vendor: HookVendorName) {
  const hooks = openHooks(vendor, { FLEET_HOME: fleet.home });
  const cwd = join(hooks.folder, "work");
  mkdirSync(cwd);
  writeFileSync(join(cwd, "login.ts"), "export const form = 2;\n");
  const places = { cwd, transcript: join(hooks.folder, "transcript.jsonl") };
  writeFileSync(places.transcript, transcriptOf(vendor, places));
  return { hooks, places, calls: recordedCalls(vendor, places) };
}

async function runAll(hooks: TestHooks, calls: readonly HookCall[]): Promise<HookRun[]> {
  const runs: HookRun[] = [];
  for (const call of calls) runs.push(await hooks.run(...call));
  for (const { exit, err } of runs) expect({ exit, err }).toEqual({ exit: 0, err: "" });
  return runs;
}

/** After a compaction, one prompt carries the work, and the next one does not. */
async function continuedAtPrompt(hooks: TestHooks, compaction: readonly HookCall[], prompt: HookCall) {
  const [, first, second] = await runAll(hooks, [...compaction, prompt, prompt]);
  expect(contextOf(first!)).toContain("Changed login.ts");
  expect(second!.out).toBe("");
}

describe.each(HOOK_VENDOR_NAMES)("%s", (vendor) => {
  test("a recorded session is saved, asked once, and continued after its compaction and after /clear", async () => {
    const { hooks, places, calls } = openSession(vendor);
    try {
      const task = `${vendor}-${shortHash(String(calls[0]![1].session_id))}`;
      const [stop, clear] = [
        calls.findIndex(isStop),
        calls.findIndex(([, { source }]) => source === "clear"),
      ];
      await runAll(hooks, calls.slice(0, 1));
      for (const [n, call] of calls.slice(1, stop).entries()) hooks.keep(...call, 90 - n);
      await hooks.drained();
      const [asked] = await runAll(hooks, calls.slice(stop, stop + 1));
      expect(JSON.parse(asked!.out).reason).toContain("[Fleet checkpoint]");
      await hooks.drained();
      const latest = await reader.getLatestCheckpoint(task, { deadlineMs: 20_000 });
      expect(latest?.execution_state.goal).toBe("Add a login form");
      expect(latest?.execution_state.completed_items.map(({ title }) => title)).toEqual([
        "Changed login.ts",
        "Ran npm test, which passed",
      ]);
      expect(latest?.execution_state.resume_pointer?.current_context).toContain("Failed: false && npm test.");
      expect(latest?.metrics).toMatchObject({
        context_tokens: 41_000,
        tests_status: { passed: 1, failed: 1 },
      });
      // Gemini reports a compaction before each request to its model, which shortens nothing.
      const { checkpoints } = await reader.getCheckpointHistory(task, { deadlineMs: 20_000 });
      expect(checkpoints.map(({ metadata }) => metadata.trigger.reason)).toEqual(["turn_end"]);

      const compacted = calls.slice(stop + 1, clear);
      const runs = await runAll(hooks, compacted);
      const restart = compacted.findIndex(([, { source }]) => source === "compact");
      expect(restart >= 0).toBe(vendor !== "gemini");
      if (restart >= 0) expect(contextOf(runs[restart]!)).toContain("Changed login.ts");
      else await continuedAtPrompt(hooks, calls.slice(stop + 1, stop + 2), calls[1]!);
      const after = await runAll(hooks, calls.slice(clear));
      // Gemini drops the answer to the begin of this session, and takes one to its first prompt.
      const continued = vendor === "gemini" ? 1 : 0;
      expect(contextOf(after[continued]!)).toContain("Changed login.ts");
      const rest = after.toSpliced(continued, 1);
      expect(rest.map(({ out }) => out)).toEqual(rest.map(() => ""));

      const { start } = payloadsOf(vendor, "0d2c8a31-next", places);
      const { out } = await hooks.run(...start("startup"));
      // Claude Code alone reports an error of its vendor, and its end after that; the others reported an end of the session.
      if (vendor === "claude-code") expect(out).toContain("RATE-LIMIT now");
      else expect(out).toBe("");
    } finally {
      hooks.stop();
    }
  });
});
