// The turns of a session (seed 001) on a real fleet: its invariants, its flows and its table of failures, also across
// restarts of the fleet in the middle of a turn.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { TurnEventType, TurnResult } from "../../../shared/protocol/turns.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { TASKS, writeFirstStore } from "../../shared/records/layout-1/fixture.ts";

let fleet: TestFleet;
let client: FleetClient;
let sessions = 0;

beforeAll(async () => {
  fleet = await startFleet();
  client = await fleet.client("coder-1");
});
afterAll(() => fleet?.stop());

const START = Date.parse("2026-01-24T10:00:00.000Z");
const at = (seconds: number): string => new Date(START + seconds * 1_000).toISOString();

/** A session in which each event happens at a number of seconds after its begin. */
function session() {
  sessions += 1;
  const sessionId = `session-${sessions}`;
  return (event: TurnEventType, seconds: number, more: object = {}): Promise<TurnResult> =>
    client.turnEvent({
      ...{ sessionId, event, at: at(seconds), vendor: "claude-code", deadlineMs: 20_000 },
      ...more,
    });
}

const decisionOf = async (result: Promise<TurnResult>) => (await result).decision;
const MESSAGE = { isCheckpointMessage: true };

async function restart(): Promise<void> {
  await fleet.kill9();
  await fleet.start();
}

describe("seed 001 invariant", () => {
  test("1: no checkpoint is asked for before 30 seconds of work, from the first after_model to agent_stop", async () => {
    const one = session();
    await one("user_prompt_submit", 0);
    await one("after_model", 10);
    expect(await decisionOf(one("agent_stop", 39.999))).toBe("short_turn");
    const other = session();
    await other("user_prompt_submit", 0);
    await other("after_model", 10);
    expect(await decisionOf(other("agent_stop", 40))).toBe("requested");
  });

  test("2: only the first after_model of a turn is recorded", async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    for (const seconds of [1, 15, 29, 31])
      expect((await of("after_model", seconds)).session.last_after_model_at).toBe(at(1));
    expect(await decisionOf(of("agent_stop", 32))).toBe("requested");
  });

  test("3: a prompt clears both times", async () => {
    const of = session();
    await of("after_model", 0);
    await of("agent_stop", 40);
    const { session: cleared } = await of("user_prompt_submit", 50);
    expect(cleared).toMatchObject({ last_after_model_at: null, last_checkpoint_at: null });
    await of("after_model", 51);
    expect(await decisionOf(of("agent_stop", 90))).toBe("requested");
  });

  test("4: a prompt with the checkpoint message clears nothing, so the answer to it is not asked again", async () => {
    const of = session();
    await of("after_model", 0);
    const { session: asked } = await of("agent_stop", 40);
    const { session: kept } = await of("user_prompt_submit", 41, MESSAGE);
    expect(kept.last_after_model_at).toBe(asked.last_after_model_at);
    expect(kept.last_checkpoint_at).toBe(at(41));
    await of("after_model", 45);
    expect(await decisionOf(of("agent_stop", 120))).toBe("already_requested");
  });

  test("5: the state is in the store: a restart of the fleet between any two events changes nothing", {
    timeout: 120_000,
  }, async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    await restart();
    await of("after_model", 5);
    await restart();
    expect(await decisionOf(of("agent_stop", 36))).toBe("requested");
    await restart();
    expect(await decisionOf(of("agent_stop", 80))).toBe("already_requested");
  });

  test("6: a message after a restart of the agent counts as the request of its turn", async () => {
    const of = session();
    await of("session_start", 0);
    await of("user_prompt_submit", 5, MESSAGE);
    await of("after_model", 6);
    expect(await decisionOf(of("agent_stop", 60))).toBe("already_requested");
    await of("user_prompt_submit", 61);
    await of("after_model", 62);
    expect(await decisionOf(of("agent_stop", 100))).toBe("requested");
  });
});

test("an error stays the reason of the end, in either order of the two hooks", async () => {
  const [of, other] = [session(), session()];
  await of("agent_error", 1, { reason: "rate_limit" });
  expect((await of("session_end", 2, { reason: "other" })).session.end_reason).toBe("rate_limit");
  await other("session_end", 2, { reason: "other" });
  const { session: late } = await other("agent_error", 1, { reason: "rate_limit" });
  expect(late).toMatchObject({ end_reason: "rate_limit", ended_at: at(2) });
  expect((await of("session_start", 3, { reason: "resume" })).session.end_reason).toBeNull();
});

describe("seed 001 flow", () => {
  test("1: a normal turn: prompt, tools, stop, one request", async () => {
    const of = session();
    await of("session_start", 0);
    await of("user_prompt_submit", 1);
    await of("after_model", 2);
    await of("after_model", 20);
    const { decision, session: state } = await of("agent_stop", 33);
    expect(decision).toBe("requested");
    expect(state.last_checkpoint_at).toBe(at(33));
  });

  test("3: loop prevention: the answer to the request is not asked again, the next turn is", async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    await of("after_model", 1);
    expect(await decisionOf(of("agent_stop", 40))).toBe("requested");
    expect(await decisionOf(of("agent_stop", 50, { isContinuation: true }))).toBe("continuation");
    await of("user_prompt_submit", 60);
    await of("after_model", 61);
    expect(await decisionOf(of("agent_stop", 99))).toBe("requested");
  });
});

describe("seed 001 failure", () => {
  test("stale hooks in a running session: those that send an unknown event are refused with the events that exist", async () => {
    const failure = await session()("agent_output" as TurnEventType, 0).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "INVALID", fields: [{ path: "event" }] });
    expect(JSON.stringify(failure)).toContain("after_model");
  });

  test("DB field missing (migration not run): a store of an earlier version is brought up to date at the start, and sessions work", async () => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-first-store-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    await writeFirstStore(join(folder, "store"));
    const upgraded = await startFleet({ FLEET_STORE: `lmdb:${join(folder, "store")}` });
    onTestFinished(() => upgraded.stop());
    const first = TASKS.find(({ tenant, head }) => tenant === "default" && head.state === "completed");
    const coder = await upgraded.client("coder-1");
    expect(await coder.getTask(first?.task ?? "", { deadlineMs: 20_000 })).toMatchObject({
      state: "completed",
    });
    const of = (event: TurnEventType, seconds: number) =>
      coder.turnEvent({
        ...{ sessionId: "first", event, at: at(seconds), vendor: "claude-code", deadlineMs: 20_000 },
      });
    await of("user_prompt_submit", 0);
    await of("after_model", 1);
    expect(await decisionOf(of("agent_stop", 40))).toBe("requested");
  });

  test("daemon restart during an active turn: events arrive in another order, and the next turn works", async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    await of("after_model", 1);
    await restart();
    await of("user_prompt_submit", 60);
    // The stop of the first turn was delayed; one missed checkpoint is acceptable.
    expect(await decisionOf(of("agent_stop", 50))).toBe("out_of_date");
    expect(await decisionOf(of("after_model", 55))).toBe("out_of_date");
    await of("after_model", 61);
    expect(await decisionOf(of("agent_stop", 95))).toBe("requested");
  });

  test("an answer without tool use is not asked for a checkpoint", async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    expect(await decisionOf(of("agent_stop", 100))).toBe("no_activity");
  });

  test("rapid successive stops (< 30 s): each is skipped until the turn has lasted 30 seconds", async () => {
    const of = session();
    await of("user_prompt_submit", 0);
    await of("after_model", 1);
    for (const seconds of [5, 10, 20]) expect(await decisionOf(of("agent_stop", seconds))).toBe("short_turn");
    expect(await decisionOf(of("agent_stop", 31))).toBe("requested");
  });

  test("an event that is sent again has the same answer, and no further effect", async () => {
    const of = session();
    const activity = { files: ["a.ts"], commands: [{ command: "make" }], tool_calls: 1 };
    await of("user_prompt_submit", 0);
    await of("after_model", 1, { activity });
    const first = await of("agent_stop", 40);
    expect(first).toMatchObject({ decision: "requested", save: true });
    expect(await of("agent_stop", 40)).toEqual(first);
    expect((await of("after_model", 1, { activity })).session.activity).toEqual(first.session.activity);
    expect((await of("after_model", 2, { activity })).session.activity.tool_calls).toBe(2);
  });
});

describe("what was done", () => {
  test("is gathered, bounded, and saved once for each stop with something new", async () => {
    const of = session();
    await of("user_prompt_submit", 0, { activity: { prompt: "Add a login form" } });
    for (let n = 1; n <= 60; n += 1)
      await of("after_model", n, {
        activity: { files: [`file-${n}.ts`], commands: [{ command: `c${n}` }], tool_calls: 1 },
      });
    const { save, session: state } = await of("agent_stop", 61, { activity: { message: "Done." } });
    expect(save).toBe(true);
    const { goal, message, files, commands, tool_calls } = state.activity;
    expect({ goal, message, tool_calls }).toEqual({
      goal: "Add a login form",
      message: "Done.",
      tool_calls: 60,
    });
    expect(files).toHaveLength(40);
    expect(files.at(-1)).toBe("file-60.ts");
    expect(commands).toHaveLength(20);
    expect((await of("agent_stop", 62)).save).toBe(false);
    expect((await of("pre_compact", 63)).save).toBe(false);
    await of("after_model", 64, { activity: { files: ["new.ts"] } });
    expect((await of("pre_compact", 65)).save).toBe(true);
  });

  test("a session sees the one before it in the same folder, and why that ended", async () => {
    const folder = "/home/ada/shop";
    const one = session();
    expect((await one("session_start", 0, { folder })).previous).toBeNull();
    await one("session_end", 10, { reason: "clear" });
    const { previous } = await session()("session_start", 11, { folder });
    expect(previous).toMatchObject({ ended_at: at(10), end_reason: "clear" });
  });
});
