/** The checker reports nothing about the recoveries of a correct fleet, and every violation of a broken one. */
import { describe, expect, test } from "vitest";
import { POLICY } from "../../environment/policy.ts";
import { judge } from "../checker.ts";
import { leastShare } from "./recovery-counts.ts";
import { ScriptedRecoveries } from "./scripted-recoveries.ts";

const { recovery: RULES } = POLICY.defaults;
const ATTEMPTS = RULES.attempts + RULES.previous_attempts;

const kinds = (history: ScriptedRecoveries): string[] => [
  ...new Set(judge(history.evidence()).violations.map(({ kind }) => kind)),
];
const texts = (history: ScriptedRecoveries): string[] =>
  judge(history.evidence()).violations.map(({ text }) => text);

/** Agent `a` completes one item and falls silent; `b` has resumed the task. */
function resumed(task?: string): ScriptedRecoveries {
  const history = new ScriptedRecoveries(task);
  history.startWork();
  history.fallSilent();
  history.recover("b", 1);
  return history;
}

/** The agents report crashes until the budget is spent; the task is not blocked yet. */
function spent(): ScriptedRecoveries {
  const history = new ScriptedRecoveries();
  history.startWork();
  for (let i = 0; i < ATTEMPTS; i += 1) {
    history.reportFailure("crash");
    history.recover(`next-${i}`, 1);
  }
  history.reportFailure("crash");
  return history;
}

describe("a correct fleet", () => {
  test("recovers the task of a silent agent, refuses the agent later, and restores the budget", () => {
    const history = resumed();
    history.refuse({ op: "create", agent: "a", fence: 1 }, "FENCED");
    history.progress(2, "b");
    const verdict = judge(history.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.recoveries).toMatchObject({
      tried: 1,
      succeeded: 1,
      failed: 0,
      attempts: 1,
      could_not: {},
    });
    expect(verdict.recoveries.failures).toEqual({ "crash lease_lapsed": 1 });
    expect(verdict.recoveries.detect_ms.lease_lapsed).toMatchObject({ count: 1, worst: 0 });
  });

  test("recovers after reports, overdue steps and unconfirmed handoffs", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.reportFailure("out_of_memory");
    const id = history.attempt();
    history.offer(id);
    history.accept(id, "b");
    history.wallMs += 10_000;
    history.lapse(id);
    history.fail("handoff_lapsed", "timeout");
    history.recover("c", 1);
    history.progress(2, "c");
    history.heartbeat("c", history.wallMs + 1_000);
    history.wallMs += 5_000;
    history.fail("step_overdue", "timeout");
    history.recover("d", 2);
    expect(judge(history.evidence()).violations).toEqual([]);
  });

  test("recovers the task of a healthy agent that did not receive the answer to its take", () => {
    const history = new ScriptedRecoveries("healthy-1");
    const taking = history.send({ op: "take", agent: "a" });
    const committed = history.apply(taking, undefined);
    history.copy(taking, { outcome: "committed", committed }, "resolving");
    history.sent.set(taking.command_id!, {
      line: "sent",
      command_id: taking.command_id!,
      subject: "",
      body: JSON.stringify({ heartbeats: true }),
    });
    history.fallSilent();
    history.block("no_checkpoint");
    expect(kinds(history)).toEqual([]);
    Object.assign(taking, { outcome: "committed" });
    expect(kinds(history)).toEqual(["false_recovery"]);
  });

  test("recovers the task of a healthy agent that gave up and whose report was lost", () => {
    const history = resumed("healthy-1");
    expect(kinds(history)).toEqual(["false_recovery"]);
    history.lifecycle.push({
      line: "lifecycle",
      at: 0,
      agent: "a",
      task: history.task,
      fence: 1,
      what: "fails",
    });
    expect(kinds(history)).toEqual([]);
  });

  test("blocks the task when the budget is spent, with one alert", () => {
    const history = spent();
    history.block("attempts_spent");
    const verdict = judge(history.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.recoveries).toMatchObject({ tried: 6, succeeded: 5, could_not: { attempts_spent: 1 } });
  });

  test("counts the restart of a failed agent as an attempt, and blocks after the limit", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    for (let i = 0; i < ATTEMPTS; i += 1) {
      history.reportFailure("crash");
      history.restart("a");
    }
    history.reportFailure("crash");
    history.block("attempts_spent");
    expect(judge(history.evidence()).violations).toEqual([]);
    const endless = new ScriptedRecoveries();
    endless.startWork();
    for (let i = 0; i <= ATTEMPTS; i += 1) {
      endless.reportFailure("crash");
      endless.restart("a");
    }
    expect(kinds(endless)).toEqual(["budget_overdrawn"]);
  });

  test("keeps a task blocked whose new owner failed without a checkpoint, without a second alert", () => {
    const history = new ScriptedRecoveries("fatal-1");
    history.startWork();
    history.reportFailure("unrecoverable");
    history.block("unrecoverable");
    history.failBlocked("b", "unrecoverable");
    expect(texts(history)).toEqual([]);
    history.alertBlocked("unrecoverable");
    expect(kinds(history)).toEqual(["alert_unfounded"]);
    const other = new ScriptedRecoveries("fatal-1");
    other.startWork();
    other.reportFailure("unrecoverable");
    other.block("unrecoverable");
    other.failBlocked("b", "attempts_spent");
    expect(kinds(other).sort()).toEqual(["alert_missing", "recovery_unjustified"]);
  });

  test("blocks an impossible task at once", () => {
    const history = new ScriptedRecoveries("fatal-1");
    history.startWork();
    history.reportFailure("unrecoverable");
    history.block("unrecoverable");
    expect(kinds(history)).toEqual([]);
  });

  test("recovers from an earlier checkpoint if the newest is damaged, and blocks if an ancestor is damaged", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    const [first] = history.current;
    const second = history.complete(2, "a");
    history.damage(second.command_id!);
    history.fallSilent();
    history.resume(history.attempt(first!.checkpoint_id), "b", 1);
    history.damage(first!.checkpoint_id);
    history.fallSilent();
    history.block("chain_broken");
    expect(texts(history)).toEqual([]);
  });

  test("keeps the earlier versions of a checkpoint whose current version is damaged", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    const [first] = history.current;
    history.write({ op: "update", checkpoint: first!.checkpoint_id, fence: 1 });
    history.damage(first!.checkpoint_id);
    history.fallSilent();
    history.block("chain_broken");
    expect(texts(history)).toEqual([]);
  });
});

describe("a handoff that is cancelled after a failure", () => {
  test("blocks the task, whether it was an attempt or superseded one", () => {
    const attempt = new ScriptedRecoveries();
    attempt.startWork();
    attempt.fallSilent();
    attempt.cancelAttempt(attempt.attempt(), "anna");
    const verdict = judge(attempt.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.recoveries).toMatchObject({ tried: 1, could_not: { withdrawn: 1 }, failed: 0 });
    const instead = new ScriptedRecoveries();
    instead.startWork();
    instead.fallSilent();
    instead.cancelAttempt(instead.handOffInstead("anna"), "anna");
    expect(texts(instead)).toEqual([]);
  });

  test("is the only cause of that block, and always blocks the task", () => {
    const silent = new ScriptedRecoveries();
    silent.startWork();
    silent.fallSilent();
    silent.withdraw(silent.handOffInstead("anna"), "anna");
    expect(texts(silent)).toEqual(["a task has neither an owner nor a block after a failure"]);
    const unasked = new ScriptedRecoveries();
    unasked.startWork();
    unasked.fallSilent();
    unasked.block("withdrawn");
    expect(texts(unasked)).toEqual(["a task was blocked without a cause"]);
    const untold = new ScriptedRecoveries();
    untold.startWork();
    untold.fallSilent();
    untold.cancelAttempt(untold.attempt(), "anna");
    untold.alerts.pop();
    expect(kinds(untold)).toEqual(["alert_missing"]);
  });
});

describe("a broken fleet", () => {
  test("fails an agent by silence that sent a heartbeat", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.wallMs += RULES.silence_ms - 1_000;
    history.heartbeat("a");
    history.wallMs += 1_000;
    history.fail("lease_lapsed", "crash");
    history.recover("b", 1);
    expect(kinds(history)).toEqual(["false_recovery"]);
  });

  test("fails an agent by silence whose last heartbeat the bus cannot have lost", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.wallMs += 1_000;
    history.heartbeat("a");
    history.wallMs += RULES.silence_ms - 1_000;
    history.fail("lease_lapsed", "crash");
    history.recover("b", 1);
    expect(kinds(history)).toEqual(["false_recovery"]);
    expect(judge({ ...history.evidence(), lossMs: 700 }).violations).toEqual([]);
  });

  test("fails an agent by silence that wrote a checkpoint", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.wallMs += RULES.silence_ms - 1_000;
    history.complete(2, "a");
    history.wallMs += 2_000;
    history.fail("lease_lapsed", "crash");
    history.recover("b", 2);
    expect(kinds(history)).toEqual(["false_recovery"]);
  });

  test("fails an agent before the deadline of its step, or without a report", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.heartbeat("a", history.wallMs + 60_000);
    history.wallMs += 5_000;
    history.fail("step_overdue", "timeout");
    history.recover("b", 1);
    history.fail("exit_report", "crash");
    history.recover("c", 1);
    const { violations } = judge(history.evidence());
    expect(violations.map(({ kind }) => kind)).toEqual(["false_recovery", "false_recovery"]);
  });

  test("fails a healthy agent", () => {
    const history = resumed("healthy-1");
    expect(kinds(history)).toEqual(["false_recovery"]);
  });

  test("makes two attempts after one failure", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.fallSilent();
    const first = history.attempt();
    history.cancel(first, "withdrawn", "another");
    history.recover("b", 1);
    expect(kinds(history)).toContain("recovered_twice");
  });

  test("does not count an attempt, or exceeds the budget", () => {
    const uncounted = resumed();
    uncounted.attemptCount = 0;
    uncounted.reportFailure("crash");
    uncounted.recover("c", 1);
    expect(kinds(uncounted)).toEqual(["budget_overdrawn"]);
    const more = spent();
    more.recover("one more", 1);
    expect(kinds(more)).toEqual(["budget_overdrawn"]);
  });

  test("restores the budget without progress", () => {
    const history = resumed("junk-1");
    const junk = history.complete(1, "b", ["item 0", "item 0", "item 0"]);
    history.settle(junk.command_id!);
    expect(kinds(history)).toContain("budget_returned");
  });

  test("does not restore the budget after progress", () => {
    const history = resumed("normal-1");
    history.complete(2, "b");
    expect(texts(history)).toContain("the budget was not restored after progress");
  });

  test("makes an attempt before it is due", () => {
    const history = resumed();
    history.reportFailure("crash");
    history.wallMs -= RULES.back_off_ms;
    history.recover("c", 1);
    expect(texts(history)).toEqual(["an attempt was made before it was due"]);
  });

  test("blocks without a cause, or alerts never or without a block", () => {
    const early = resumed();
    early.reportFailure("crash");
    early.block("attempts_spent");
    expect(texts(early)).toEqual(["a task was blocked without a cause"]);
    const silent = spent();
    silent.block("attempts_spent");
    silent.alerts.pop();
    expect(kinds(silent)).toEqual(["alert_missing"]);
    const loud = resumed();
    loud.alertBlocked("attempts_spent");
    expect(kinds(loud)).toEqual(["alert_unfounded"]);
  });

  test("recovers an ended task", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.write({ op: "finalize", fence: 1, checkpoint: history.current[0]!.checkpoint_id });
    history.state = "completed";
    history.entries.at(-1)!.state_to = "completed";
    history.fallSilent();
    expect(kinds(history)).toContain("ended_restarted");
  });

  test("recovers from a damaged checkpoint, or serves it", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    const newest = history.complete(2, "a");
    history.damage(newest.command_id!);
    history.fallSilent();
    history.recover("b", 2);
    const { checkpoint_id, version } = newest.committed as { checkpoint_id: string; version: number };
    const from = { checkpoint_id, version, hash: "of something else" };
    history.lifecycle.push({
      line: "lifecycle",
      at: 0,
      agent: "b",
      task: "t",
      fence: 3,
      what: "begins",
      from,
    });
    expect(texts(history)).toEqual([
      "an attempt continues from a damaged or missing checkpoint",
      "an agent received a checkpoint that was never written",
    ]);
  });

  test("blocks a task with a sound checkpoint as chain_broken", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    const newest = history.complete(2, "a");
    history.damage(newest.command_id!);
    history.fallSilent();
    history.block("chain_broken");
    expect(texts(history)).toEqual(["a task was blocked without a cause"]);
  });

  test("does not raise the fence after a failure", () => {
    const history = new ScriptedRecoveries();
    history.startWork();
    history.fallSilent();
    history.fence -= 1;
    history.entries.at(-1)!.fence -= 1;
    history.recover("b", 1);
    expect(kinds(history)).toContain("two_owners");
  });

  test("leaves a recovery or a task open", () => {
    const waiting = new ScriptedRecoveries();
    waiting.startWork();
    waiting.fallSilent();
    expect(kinds(waiting)).toEqual(["recovery_unfinished"]);
    const left = new ScriptedRecoveries("normal-1");
    left.startWork();
    expect(kinds(left)).toEqual(["recovery_unfinished"]);
    expect(judge(waiting.evidence()).recoveries.failed).toBe(1);
  });
});

test("the bound of the success rate is 1 - 3/n without failures, and Wilson's bound with failures", () => {
  expect(leastShare(3_000, 0)).toBeCloseTo(0.999, 5);
  expect(leastShare(99, 1)).toBeCloseTo(0.956, 3);
  expect(leastShare(0, 0)).toBe(0);
});
