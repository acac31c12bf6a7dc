/** The checker is silent about recoveries that a correct fleet made, wherever they led, and names what a broken one does to agents and tasks. */
import { describe, expect, test } from "vitest";
import { POLICY } from "../../environment/policy.ts";
import { judge } from "../checker.ts";
import { leastShare } from "./recovery-counts.ts";
import { RecoveryTelling } from "./recovery-script.ts";

const { recovery: RULES } = POLICY.defaults;
const ATTEMPTS = RULES.attempts + RULES.previous_attempts;

const kinds = (story: RecoveryTelling): string[] => [
  ...new Set(judge(story.evidence()).violations.map(({ kind }) => kind)),
];
const texts = (story: RecoveryTelling): string[] =>
  judge(story.evidence()).violations.map(({ text }) => text);

/** Agent `a` has done one item and dies, `b` has resumed. */
function resumed(task?: string): RecoveryTelling {
  const story = new RecoveryTelling(task);
  story.works();
  story.dies();
  story.recovers("b", 1);
  return story;
}

/** Each agent reports a crash, until all attempts are made; the block is still to come. */
function spent(): RecoveryTelling {
  const story = new RecoveryTelling();
  story.works();
  for (let i = 0; i < ATTEMPTS; i += 1) {
    story.reports("crash");
    story.recovers(`next-${i}`, 1);
  }
  story.reports("crash");
  return story;
}

describe("a correct fleet", () => {
  test("recovers the task of an agent that died, which is refused when it wakes, and gives the budget back", () => {
    const story = resumed();
    story.refuse({ op: "create", agent: "a", fence: 1 }, "FENCED");
    story.progresses(2, "b");
    const verdict = judge(story.evidence());
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

  test("believes reports, steps that are overdue, and handoffs that nobody confirmed", () => {
    const story = new RecoveryTelling();
    story.works();
    story.reports("out_of_memory");
    const id = story.attempt();
    story.offer(id);
    story.accept(id, "b");
    story.wallMs += 10_000;
    story.lapse(id);
    story.fail("handoff_lapsed", "timeout");
    story.recovers("c", 1);
    story.progresses(2, "c");
    story.beat("c", story.wallMs + 1_000);
    story.wallMs += 5_000;
    story.fail("step_overdue", "timeout");
    story.recovers("d", 2);
    expect(judge(story.evidence()).violations).toEqual([]);
  });

  test("recovers the task of a healthy agent that was never told that it has it", () => {
    const story = new RecoveryTelling("healthy-1");
    const taking = story.ask({ op: "take", agent: "a" });
    const committed = story.apply(taking, undefined);
    story.copy(taking, { outcome: "committed", committed }, "resolving");
    story.sent.set(taking.command_id!, {
      line: "sent",
      command_id: taking.command_id!,
      subject: "",
      body: JSON.stringify({ heartbeats: true }),
    });
    story.dies();
    story.blocks("no_checkpoint");
    expect(kinds(story)).toEqual([]);
    Object.assign(taking, { outcome: "committed" });
    expect(kinds(story)).toEqual(["false_recovery"]);
  });

  test("recovers the task of a healthy agent that gave up, though its report got lost", () => {
    const story = resumed("healthy-1");
    expect(kinds(story)).toEqual(["false_recovery"]);
    story.lives.push({ line: "life", at: 0, agent: "a", task: story.task, fence: 1, what: "fails" });
    expect(kinds(story)).toEqual([]);
  });

  test("gives up when all attempts are made, and tells people once", () => {
    const story = spent();
    story.blocks("attempts_spent");
    const verdict = judge(story.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.recoveries).toMatchObject({ tried: 6, succeeded: 5, could_not: { attempts_spent: 1 } });
  });

  test("counts an attempt when an agent takes its task again after its failure, and gives up after as many", () => {
    const story = new RecoveryTelling();
    story.works();
    for (let i = 0; i < ATTEMPTS; i += 1) {
      story.reports("crash");
      story.restarts("a");
    }
    story.reports("crash");
    story.blocks("attempts_spent");
    expect(judge(story.evidence()).violations).toEqual([]);
    const endless = new RecoveryTelling();
    endless.works();
    for (let i = 0; i <= ATTEMPTS; i += 1) {
      endless.reports("crash");
      endless.restarts("a");
    }
    expect(kinds(endless)).toEqual(["budget_overdrawn"]);
  });

  test("leaves a task blocked whose taker has written nothing, and tells nobody twice", () => {
    const story = new RecoveryTelling("fatal-1");
    story.works();
    story.reports("unrecoverable");
    story.blocks("unrecoverable");
    story.failsUnwritten("b", "unrecoverable");
    expect(texts(story)).toEqual([]);
    story.warn("unrecoverable");
    expect(kinds(story)).toEqual(["alert_unfounded"]);
    const other = new RecoveryTelling("fatal-1");
    other.works();
    other.reports("unrecoverable");
    other.blocks("unrecoverable");
    other.failsUnwritten("b", "attempts_spent");
    expect(kinds(other).sort()).toEqual(["alert_missing", "recovery_unjustified"]);
  });

  test("gives up at once what nobody can do", () => {
    const story = new RecoveryTelling("fatal-1");
    story.works();
    story.reports("unrecoverable");
    story.blocks("unrecoverable");
    expect(kinds(story)).toEqual([]);
  });

  test("goes on from an earlier checkpoint where the newest was damaged, and gives up where that goes back to one", () => {
    const story = new RecoveryTelling();
    story.works();
    const [first] = story.current;
    const second = story.done(2, "a");
    story.damage(second.command_id!);
    story.dies();
    story.resumes(story.attempt(first!.checkpoint_id), "b", 1);
    story.damage(first!.checkpoint_id);
    story.dies();
    story.blocks("chain_broken");
    expect(texts(story)).toEqual([]);
  });
});

describe("a handoff that is taken back after a failure", () => {
  test("leaves the task to a person, whether it was an attempt or took the place of one", () => {
    const attempt = new RecoveryTelling();
    attempt.works();
    attempt.dies();
    attempt.takesBack(attempt.attempt(), "anna");
    const verdict = judge(attempt.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.recoveries).toMatchObject({ tried: 1, could_not: { withdrawn: 1 }, failed: 0 });
    const instead = new RecoveryTelling();
    instead.works();
    instead.dies();
    instead.takesBack(instead.handsOffInstead("anna"), "anna");
    expect(texts(instead)).toEqual([]);
  });

  test("does so for no other reason, and never without it", () => {
    const silent = new RecoveryTelling();
    silent.works();
    silent.dies();
    silent.withdraw(silent.handsOffInstead("anna"), "anna");
    expect(texts(silent)).toEqual(["a task was left to nobody after a failure"]);
    const unasked = new RecoveryTelling();
    unasked.works();
    unasked.dies();
    unasked.blocks("withdrawn");
    expect(texts(unasked)).toEqual(["a task was blocked for a reason that is none"]);
    const untold = new RecoveryTelling();
    untold.works();
    untold.dies();
    untold.takesBack(untold.attempt(), "anna");
    untold.alerts.pop();
    expect(kinds(untold)).toEqual(["alert_missing"]);
  });
});

describe("a broken fleet", () => {
  test("takes an agent for dead that was heard", () => {
    const story = new RecoveryTelling();
    story.works();
    story.wallMs += RULES.silence_ms - 1_000;
    story.beat("a");
    story.wallMs += 1_000;
    story.fail("lease_lapsed", "crash");
    story.recovers("b", 1);
    expect(kinds(story)).toEqual(["false_recovery"]);
  });

  test("takes an agent for dead that has just written", () => {
    const story = new RecoveryTelling();
    story.works();
    story.wallMs += RULES.silence_ms - 1_000;
    story.done(2, "a");
    story.wallMs += 2_000;
    story.fail("lease_lapsed", "crash");
    story.recovers("b", 2);
    expect(kinds(story)).toEqual(["false_recovery"]);
  });

  test("takes an agent for hung whose step had time, or that reported nothing", () => {
    const story = new RecoveryTelling();
    story.works();
    story.beat("a", story.wallMs + 60_000);
    story.wallMs += 5_000;
    story.fail("step_overdue", "timeout");
    story.recovers("b", 1);
    story.fail("exit_report", "crash");
    story.recovers("c", 1);
    const { violations } = judge(story.evidence());
    expect(violations.map(({ kind }) => kind)).toEqual(["false_recovery", "false_recovery"]);
  });

  test("takes its task from a healthy agent, whatever is said of it", () => {
    const story = resumed("healthy-1");
    expect(kinds(story)).toEqual(["false_recovery"]);
  });

  test("makes two attempts after one failure", () => {
    const story = new RecoveryTelling();
    story.works();
    story.dies();
    const first = story.attempt();
    story.cancelled(first, "withdrawn", "somebody");
    story.recovers("b", 1);
    expect(kinds(story)).toContain("recovered_twice");
  });

  test("does not count an attempt, or makes more than there are", () => {
    const uncounted = resumed();
    uncounted.tries = 0;
    uncounted.reports("crash");
    uncounted.recovers("c", 1);
    expect(kinds(uncounted)).toEqual(["budget_overdrawn"]);
    const more = spent();
    more.recovers("one more", 1);
    expect(kinds(more)).toEqual(["budget_overdrawn"]);
  });

  test("gives the budget back for what is no progress", () => {
    const story = resumed("junk-1");
    const junk = story.done(1, "b", ["item 0", "item 0", "item 0"]);
    story.settles(junk.command_id!);
    expect(kinds(story)).toContain("budget_returned");
  });

  test("keeps the budget although something got done", () => {
    const story = resumed("sound-1");
    story.done(2, "b");
    expect(texts(story)).toContain("something new got done, and the budget was not given back");
  });

  test("does not wait until the time of an attempt", () => {
    const story = resumed();
    story.reports("crash");
    story.wallMs -= RULES.back_off_ms;
    story.recovers("c", 1);
    expect(texts(story)).toEqual(["an attempt did not wait until its time"]);
  });

  test("gives up for no reason, or tells nobody, or the wrong people", () => {
    const early = resumed();
    early.reports("crash");
    early.blocks("attempts_spent");
    expect(texts(early)).toEqual(["a task was blocked for a reason that is none"]);
    const silent = spent();
    silent.blocks("attempts_spent");
    silent.alerts.pop();
    expect(kinds(silent)).toEqual(["alert_missing"]);
    const loud = resumed();
    loud.warn("attempts_spent");
    expect(kinds(loud)).toEqual(["alert_unfounded"]);
  });

  test("restarts what is over", () => {
    const story = new RecoveryTelling();
    story.works();
    story.write({ op: "finalize", fence: 1, checkpoint: story.current[0]!.checkpoint_id });
    story.state = "completed";
    story.entries.at(-1)!.state_to = "completed";
    story.dies();
    expect(kinds(story)).toContain("ended_restarted");
  });

  test("goes on from what was damaged, or serves it", () => {
    const story = new RecoveryTelling();
    story.works();
    const newest = story.done(2, "a");
    story.damage(newest.command_id!);
    story.dies();
    story.recovers("b", 2);
    const { checkpoint_id, version } = newest.committed as { checkpoint_id: string; version: number };
    const from = { checkpoint_id, version, hash: "of something else" };
    story.lives.push({ line: "life", at: 0, agent: "b", task: "t", fence: 3, what: "begins", from });
    expect(texts(story)).toEqual([
      "an attempt goes on from what was damaged or is not there",
      "an agent was served a checkpoint that nobody wrote so",
    ]);
  });

  test("gives up a chain that is whole", () => {
    const story = new RecoveryTelling();
    story.works();
    const newest = story.done(2, "a");
    story.damage(newest.command_id!);
    story.dies();
    story.blocks("chain_broken");
    expect(texts(story)).toEqual(["a task was blocked for a reason that is none"]);
  });

  test("does not raise the fence of who failed", () => {
    const story = new RecoveryTelling();
    story.works();
    story.dies();
    story.fence -= 1;
    story.entries.at(-1)!.fence -= 1;
    story.recovers("b", 1);
    expect(kinds(story)).toContain("two_owners");
  });

  test("leaves a task to nobody, or a recovery on its way", () => {
    const waiting = new RecoveryTelling();
    waiting.works();
    waiting.dies();
    expect(kinds(waiting)).toEqual(["recovery_unfinished"]);
    const left = new RecoveryTelling("sound-1");
    left.works();
    expect(kinds(left)).toEqual(["recovery_unfinished"]);
    expect(judge(waiting.evidence()).recoveries.failed).toBe(1);
  });
});

test("the bound of the success rate: the rule of three without failures, Wilson's with some", () => {
  expect(leastShare(3_000, 0)).toBeCloseTo(0.999, 5);
  expect(leastShare(99, 1)).toBeCloseTo(0.956, 3);
  expect(leastShare(0, 0)).toBe(0);
});
