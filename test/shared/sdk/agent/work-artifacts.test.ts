/** What a run leaves for the next agent, with a real writer, reader, store and nats-server: times, side effects, files, its own words. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import type { AgentOptions, AgentRun } from "../../../../shared/sdk/sdk.ts";
import { esignBody } from "../../../harness/esign/signed-statement.ts";
import { type InProcessFleet, openInProcessFleet } from "../../../harness/in-process-fleet.ts";
import { send } from "../../../harness/records/records.ts";

let fleet: InProcessFleet;
let folder: string;
beforeAll(async () => {
  fleet = await openInProcessFleet();
  folder = mkdtempSync(join(tmpdir(), "fleet-artifacts-"));
});
afterAll(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function history(task: string): Promise<Checkpoint[]> {
  const query = { task_id: task, order: "oldest", limit: 100, versions: "latest" };
  return (await fleet.records.repository.history("default", query as never)).checkpoints as Checkpoint[];
}
const last = async (task: string) => (await history(task)).at(-1) as Checkpoint;

function run(agent: string, options: Omit<AgentOptions, "type">) {
  return fleet.runAgent(agent, { type: "implementation", log: () => {}, ...options });
}

const leaveAfter =
  (count: number, facts: (title: string) => object = () => ({})) =>
  async (one: AgentRun): Promise<void> => {
    let done = 0;
    for (const item of one.items()) {
      if (done === count) return;
      await one.done(item, facts(item.title));
      done += 1;
    }
  };

test("seed 003 US-001: a checkpoint after every third completed step, with files, decisions and pending steps", async () => {
  await run("timed", {
    task: "timed",
    begin: { pending_items: ["a", "b", "c", "d", "e"] },
    async work(one) {
      one.decide("Use CSS properties", "no style is calculated");
      await leaveAfter(4, (title) => ({ files_created: [`${title}.ts`], files_modified: ["App.tsx"] }))(one);
    },
  });
  const written = await history("timed");
  expect(written.map(({ execution_state: { completed_items } }) => completed_items.length)).toEqual([
    0, 3, 4,
  ]);
  const { execution_state, context_summary } = written.at(-1) as Checkpoint;
  expect(execution_state.pending_items.map(({ title }) => title)).toEqual(["e"]);
  const aTime = expect.stringMatching(/^20\d\d-.*Z$/);
  for (const item of execution_state.completed_items) {
    const files = { files_created: [`${item.title}.ts`], files_modified: ["App.tsx"] };
    expect(item).toMatchObject({ at: aTime, ...files });
  }
  expect(context_summary.key_decisions).toEqual([
    { decision: "Use CSS properties", rationale: "no style is calculated", at: aTime },
  ]);
});

test("seed 004 mandatory: before a long operation, on a priority message, at a phase transition and at the completion", async () => {
  const reasonsOf = async (task: string) =>
    (await history(task)).map(({ metadata: { trigger } }) => trigger.reason);
  await run("planner", {
    task: "moments",
    begin: { phase: "planning", pending_items: ["a"] },
    async work(one) {
      await one.beforeLong("migrate the store");
      await one.priorityMessage("the build is broken");
      await one.phase("testing");
    },
  });
  expect(await reasonsOf("moments")).toEqual([
    ...["manual", "before_long_operation", "priority_message", "phase_transition"],
    // The handoff to the agent of the next phase.
    "phase_transition",
  ]);
  const details = (await history("moments")).map(({ metadata: { trigger } }) => trigger.details);
  expect(details.slice(1, 3)).toEqual(["migrate the store", "the build is broken"]);
  await run("closer", { task: "completed", begin: { pending_items: ["a"] }, work: leaveAfter(1) });
  expect(await reasonsOf("completed")).toEqual(["manual", "task_complete"]);
});

test("seed 003 US-001: updated in place, one draft gets the progress in new versions, and earlier versions stay readable", async () => {
  await run("tidy", {
    task: "in-place",
    begin: { goal: "Count", pending_items: ["a", "b", "c"], current_focus: "a" },
    checkpoints: { items: 1, inPlace: true },
    async work(one) {
      await one.done("a");
      // A member that the work removed is removed from the draft as well.
      delete one.state.execution_state.current_focus;
      await one.done("b");
    },
  });
  const written = await history("in-place");
  expect(written).toHaveLength(1);
  const { metadata, execution_state } = written[0] as Checkpoint;
  expect(metadata).toMatchObject({ version: 4, trigger: { reason: "turn_end" } });
  expect(execution_state.completed_items.map(({ title }) => title)).toEqual(["a", "b"]);
  expect(execution_state.pending_items.map(({ title }) => title)).toEqual(["c"]);
  expect(execution_state).not.toHaveProperty("current_focus");
  const first = await fleet.records.repository.get("default", metadata.checkpoint_id, 1);
  expect(first.execution_state).toMatchObject({ completed_items: [], current_focus: "a" });
});

test("in place, a run continues from a checkpoint that a person has signed", async () => {
  const checkpoints = { items: 1, inPlace: true };
  const begin = { pending_items: ["a", "b"] };
  await run("author", { task: "signed", begin, checkpoints, work: leaveAfter(0) });
  const { repository } = fleet.records;
  const body = await esignBody(repository, { task: "signed" });
  await send(repository, "signature_add", body, { task: "signed", agent: "human=ada" });
  const resumed = await run("next", { task: "signed", checkpoints, work: leaveAfter(2) });
  expect(resumed).toMatchObject({ outcome: "completed" });
  const written = await history("signed");
  expect(written.map(({ metadata: { version } }) => version)).toEqual([expect.any(Number), 4]);
  expect(written.at(-1)?.execution_state.completed_items.map(({ title }) => title)).toEqual(["a", "b"]);
});

test("in place, a draft that was finalized meanwhile is followed by a new checkpoint", async () => {
  const client = await fleet.client("overtaken");
  await run("overtaken", {
    task: "overtaken",
    begin: { pending_items: ["a", "b"] },
    checkpoints: { items: 1, inPlace: true },
    async work(one) {
      await client.task("overtaken", { fence: one.fence }).finalize(String(one.checkpointId), "cancelled");
      await one.done("a");
    },
  });
  const written = await history("overtaken");
  expect(written.map(({ execution_state: { completed_items } }) => completed_items.length)).toEqual([0, 1]);
});

test("seed 003 US-003: a resumed task knows the agents before, logs its phase (seed 004) and is reported as resumed", async () => {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const begin = { phase: "testing" as const, pending_items: ["a", "b", "c"] };
  await run("first", { task: "chain", begin, log, work: leaveAfter(1) });
  const second = await run("second", { task: "chain", log, work: leaveAfter(1) });
  const third = await run("third", { task: "chain", log, work: leaveAfter(1) });
  expect(lines).toEqual(Array(2).fill("[Agent] Resuming from phase: testing"));
  expect(second).toMatchObject({ outcome: "stopped", resumedFrom: { agentId: "first" } });
  expect(third).toMatchObject({ outcome: "completed", resumedFrom: { agentId: "second" } });
  const { recovery, metadata } = await last("chain");
  expect(recovery.previous_agents).toEqual(["first", "second"]);
  expect(recovery.resumed_from).toEqual({
    agent_id: "second",
    checkpoint_id: second.checkpointId,
  });
  expect(metadata.trigger).toEqual({
    reason: "task_complete",
    details: "the resumed task is complete; second worked on it before",
  });
});

test.each(["report", "stop", "repair"] as const)(
  "seed 003 US-003: files are verified before the work continues; the rule for missing ones is %s",
  async (rule) => {
    const task = `files-${rule}`;
    const files = (title: string) => ({ files_created: [`${task}-${title}.txt`] });
    writeFileSync(join(folder, `${task}-a.txt`), "a");
    writeFileSync(join(folder, `${task}-b.txt`), "b");
    const begin = { pending_items: ["a", "b", "c"] };
    await run("maker", { task, workspace: folder, begin, work: leaveAfter(2, files) });
    expect((await last(task)).recovery.workspace?.files?.map(({ path }) => path)).toEqual([
      `${task}-b.txt`,
      `${task}-a.txt`,
    ]);
    rmSync(join(folder, `${task}-a.txt`));

    const seen: string[] = [];
    const next = run("verifier", {
      task,
      workspace: folder,
      onMissingFiles: rule,
      async work(one) {
        expect(one.missing).toMatchObject([{ item: { title: "a" }, files: [`${task}-a.txt`] }]);
        for (const item of one.items()) {
          seen.push(item.title);
          await one.done(item);
        }
      },
    });
    if (rule === "stop") {
      await expect(next).rejects.toMatchObject({ code: "CONFLICT", details: { items: [{ title: "a" }] } });
      expect((await last(task)).metadata.trigger.reason).toBe("error");
    } else expect(await next).toMatchObject({ outcome: "completed" });
    expect(seen).toEqual({ report: ["c"], stop: [], repair: ["a", "c"] }[rule]);
  },
);

test("seed 003 US-003: the next agent has the checkpoint in its prompt, and picks up from the current step", async () => {
  const current_step = { description: "Wire the toggle", partial_work: "the hook is added" };
  await run("stopped", {
    task: "picked-up",
    begin: { goal: "Add dark mode", pending_items: ["toggle", "wire", "test"] },
    async work(one) {
      one.decide("CSS properties", "no style is calculated");
      await one.done("toggle");
      Object.assign(one.state.execution_state, { current_step });
      await one.checkpoint();
    },
  });
  const seen: string[] = [];
  const next = await run("fresh", {
    task: "picked-up",
    async work(one) {
      for (const text of [
        "Add dark mode",
        "toggle",
        "CSS properties",
        "Wire the toggle",
        "the hook is added",
      ])
        expect(one.prompt).toContain(text);
      expect(one.state.execution_state.current_step).toMatchObject(current_step);
      for (const item of one.items()) {
        seen.push(item.title);
        await one.done(item);
      }
    },
  });
  expect(seen).toEqual(["wire", "test"]);
  expect(next).toMatchObject({ outcome: "completed", resumedFrom: { agentId: "stopped" } });
});

const charge = { id: "charge", description: "charge the card" };

test("seed 003 non-file work: a side effect is claimed in the store before it happens, and happens once", async () => {
  const claims: unknown[] = [];
  const act = async () => {
    claims.push((await last("paid")).execution_state.side_effects);
    return "receipt 7";
  };
  await run("payer", {
    task: "paid",
    begin: { pending_items: ["pay"] },
    async work(one) {
      expect(await one.sideEffect(charge, act)).toBe("receipt 7");
      expect(await one.sideEffect(charge, act)).toBe("receipt 7");
    },
  });
  expect(claims).toMatchObject([[{ id: "charge", state: "claimed", agent_id: "payer" }]]);
  await run("next", {
    task: "paid",
    async work(one) {
      expect(await one.sideEffect(charge, act)).toBe("receipt 7");
    },
  });
  expect(claims).toHaveLength(1);
});

test("seed 003 non-file work: a claimed side effect is verified before it is repeated, and without a way to verify it is refused", async () => {
  const died = new Error("the connection broke");
  const failing = run("unlucky", {
    task: "unsure",
    begin: { pending_items: ["pay"] },
    work: async (one) => void (await one.sideEffect(charge, () => Promise.reject(died))),
  });
  await expect(failing).rejects.toBe(died);
  let acted = 0;
  const act = async () => {
    acted += 1;
    return "receipt 8";
  };
  const results: unknown[] = [];
  await run("careful", {
    task: "unsure",
    async work(one) {
      await expect(one.sideEffect(charge, act)).rejects.toMatchObject({ code: "CONFLICT" });
      results.push(await one.sideEffect({ ...charge, verify: async () => null }, act));
      const other = { ...charge, id: "refund", verify: async () => "refund 1" };
      await one.sideEffect({ ...other }, async () => Promise.reject(died)).catch(() => {});
      results.push(await one.sideEffect(other, act));
    },
  });
  expect(results).toEqual(["receipt 8", "refund 1"]);
  expect(acted).toBe(1);
});

test("calls at the same time perform a side effect once", async () => {
  let acted = 0;
  const act = async () => {
    acted += 1;
    return `receipt ${acted}`;
  };
  const results: unknown[] = [];
  await run("busy", {
    task: "at-once",
    begin: { pending_items: ["pay"] },
    async work(one) {
      const verified = { ...charge, verify: async () => null };
      const calls = [1, 2, 3].map(() => one.sideEffect(verified, act));
      results.push(...(await Promise.all(calls)));
    },
  });
  expect(results).toEqual(["receipt 1", "receipt 1", "receipt 1"]);
});

test("seed 000 FR-004.2: a handoff has a continuation prompt before it is sealed: the agent's own words, or a summary", async () => {
  const begin = { pending_items: ["a", "b"], blocked_items: [{ title: "deploy", blocker: "no key" }] };
  const handOff = (own?: string) => async (one: AgentRun) => {
    await one.done("a");
    if (own !== undefined) one.state.recovery.continuation_prompt = own;
    await one.handOff();
  };
  await run("silent", { task: "summary", begin, work: handOff() });
  expect((await last("summary")).recovery).toMatchObject({
    continuation_prompt_source: "generated",
    continuation_prompt:
      "What was accomplished:\n- a\n\nWhat remains:\n- b\n\n" +
      "Current blockers:\n- deploy (blocked by: no key)\n\nRecommended next step:\n- b",
  });
  await run("wordy", { task: "own-words", begin, work: handOff("Ask Ada first") });
  const { recovery } = await last("own-words");
  expect(recovery.continuation_prompt).toBe("Ask Ada first");
  expect(recovery).not.toHaveProperty("continuation_prompt_source");
});
