/** The checker is silent about handoffs that a correct fleet made, whichever end they came to, and names what a broken one did to them. */
import { describe, expect, test } from "vitest";
import { judge } from "../checker.ts";
import { DEADLINE_MS, FIRST_CHECKPOINT_MS, HandoffTelling } from "./handoff-script.ts";

const kinds = (story: HandoffTelling): string[] => [
  ...new Set(judge(story.evidence()).violations.map(({ kind }) => kind)),
];

/** A task of `a`, handed off by its last checkpoint, and offered. */
function offered(): { story: HandoffTelling; id: string } {
  const story = new HandoffTelling();
  story.write({ op: "take" });
  story.write({ op: "create", fence: 1 });
  const id = story.handOff({ fence: 1 });
  story.offer(id);
  return { story, id };
}

function accepted(): { story: HandoffTelling; id: string } {
  const { story, id } = offered();
  story.accept(id, "b");
  return { story, id };
}

describe("a correct fleet", () => {
  test("hands a task over, and the agent before is refused", () => {
    const { story, id } = accepted();
    story.refuse({ op: "create", fence: 1 }, "FENCED");
    story.confirm(id, "b");
    story.write({ op: "create", agent: "b", fence: 2 });
    const verdict = judge(story.evidence(), [story.wallMs + 1]);
    expect(verdict.violations).toEqual([]);
    expect(verdict.zombies).toEqual({ tried: 1, refused: 1, unanswered: 0, after_handoff: 1 });
    expect(verdict.handoffs).toMatchObject({ requested: 1, accepted: 1, ends: { confirmed: 1 } });
  });

  test("offers again what nobody took, and escalates it after the last offer", () => {
    const { story, id } = offered();
    story.wallMs += DEADLINE_MS;
    story.offer(id);
    const verdict = judge(story.evidence(), [story.wallMs]);
    expect(verdict.handoffs).toMatchObject({ offered_again: 1, met_by_kills: { offered: 1 } });
    story.wallMs += DEADLINE_MS;
    story.escalate(id, "no_agent");
    expect(kinds(story)).toEqual([]);
  });

  test("lets one that nobody confirms lapse, and whoever accepted may write later", () => {
    const { story, id } = accepted();
    story.wallMs += FIRST_CHECKPOINT_MS;
    story.lapse(id);
    story.write({ op: "create", agent: "b", fence: 2 });
    expect(kinds(story)).toEqual([]);
  });

  test("cancels one that is taken back, whose task is taken or ends, or that another follows", () => {
    const withdrawn = offered();
    withdrawn.story.withdraw(withdrawn.id, "a", 1);
    const again = withdrawn.story.initiate("a", 1);
    const taking = withdrawn.story.write({ op: "take", agent: "c" });
    withdrawn.story.cancelled(again, "taken", taking.command_id!);
    expect(kinds(withdrawn.story)).toEqual([]);

    const ended = accepted();
    const last = ended.story.write({ op: "finalize", agent: "b", fence: 2, checkpoint: ended.id });
    ended.story.cancelled(ended.id, "task_ended", last.command_id!);
    expect(kinds(ended.story)).toEqual([]);

    const { story, id } = offered();
    const next = story.write({ op: "create", fence: 1 });
    story.cancelled(id, "superseded", next.command_id!);
    const followed = story.initiate("a", 1);
    Object.assign(story.entries.at(-1)!, { command_id: next.command_id, handoff_id: next.command_id });
    story.handoffs.set(next.command_id!, { ...story.handoffs.get(followed)!, handoff_id: next.command_id! });
    story.handoffs.delete(followed);
    story.attempts.pop();
    Object.assign(next, {
      handoff: next.command_id,
      committed: { ...next.committed, handoff: next.command_id },
    });
    story.withdraw(next.command_id!, "a", 1);
    expect(kinds(story)).toEqual([]);
  });
});

describe("a broken fleet", () => {
  test("loses a handoff that it answered", () => {
    const { story, id } = offered();
    story.withdraw(id, "a", 1);
    const attempt = story.write({ op: "create", fence: 1 });
    Object.assign(attempt, {
      handoff: attempt.command_id,
      committed: { ...attempt.committed, handoff: attempt.command_id },
    });
    expect(kinds(story)).toEqual(["handoff_lost"]);
  });

  test("has no record of one, or one that says something else", () => {
    const { story, id } = accepted();
    story.confirm(id, "b");
    story.handoffs.get(id)!.accepted_by = "c";
    expect(kinds(story)).toEqual(["handoff_lost"]);
    story.handoffs.delete(id);
    expect(kinds(story)).toEqual(["handoff_lost"]);
    story.handoffs.set("nobody's", { handoff_id: "nobody's", task_id: "t", state: "offered" } as never);
    expect(kinds(story)).toEqual(["handoff_lost"]);
  });

  test("leaves one without an end, and its task on the way", () => {
    const { story } = offered();
    expect(kinds(story)).toEqual(["handoff_unfinished"]);
    expect(judge(story.evidence()).violations).toHaveLength(2);
  });

  test("gives a task to two agents", () => {
    const { story, id } = accepted();
    story.handoffs.get(id)!.state = "offered";
    story.accept(id, "c");
    story.confirm(id, "c");
    expect(kinds(story)).toEqual(expect.arrayContaining(["handoff_taken_twice", "state_wrong"]));
  });

  test("tells two agents that they have a task, and keeps what it told one of them", () => {
    const { story, id } = accepted();
    const second = story.acknowledge(id, "c");
    second.outcome = "committed";
    second.committed = { ...story.attempts.at(-2)!.committed! };
    story.confirm(id, "b");
    expect(kinds(story)).toEqual(expect.arrayContaining(["handoff_taken_twice", "two_owners", "lost"]));
  });

  test("does not raise the fence, so that the agent before goes on writing", () => {
    const { story, id } = offered();
    story.accept(id, "b");
    story.fence = 1;
    story.entries.at(-1)!.fence = 1;
    story.write({ op: "create", fence: 1 });
    story.confirm(id, "b", 1);
    expect(kinds(story)).toEqual(expect.arrayContaining(["two_owners", "zombie_accepted", "state_wrong"]));
  });

  test("lets an agent write under another's fence, or gives a task to another than who asked", () => {
    const { story, id } = accepted();
    story.confirm(id, "b");
    story.write({ op: "create", agent: "c", fence: 2 });
    expect(kinds(story)).toEqual(["two_owners"]);
    const other = new HandoffTelling();
    other.write({ op: "take", agent: "a" });
    other.entries[0]!.owner_to = "b";
    other.owner = "b";
    expect(kinds(other)).toEqual(["two_owners"]);
  });

  test("lets an agent accept too late, or what nobody offered", () => {
    const { story, id } = offered();
    story.wallMs += DEADLINE_MS + 1;
    story.accept(id, "b");
    story.confirm(id, "b");
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
    const { story: another, id: that } = offered();
    another.acknowledge(that, "b").attempt = 2;
    Object.assign(another.attempts.at(-1)!, { outcome: "refused", code: "CONFLICT" });
    another.withdraw(that, "a", 1);
    expect(kinds(another)).toEqual(["event_unfounded"]);
  });

  test("offers again while an offer stands", () => {
    const { story, id } = offered();
    story.wallMs += DEADLINE_MS - 1;
    story.offer(id);
    story.withdraw(id, "a", 1);
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
  });

  test("confirms by a checkpoint of somebody else, or not by the first", () => {
    const { story, id } = accepted();
    const first = story.confirm(id, "b");
    first.agent = "c";
    expect(kinds(story)).toEqual(expect.arrayContaining(["handoff_unjustified", "two_owners"]));
    const { story: late, id: that } = accepted();
    late.write({ op: "create", agent: "b", fence: 2 });
    late.confirm(that, "b");
    expect(kinds(late)).toEqual(["handoff_unjustified"]);
  });

  test("rejects what nobody damaged", () => {
    const story = new HandoffTelling();
    story.reject(story.handOff());
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
  });

  test("escalates while an offer stands, or too soon, or what there are agents for", () => {
    const { story, id } = offered();
    story.wallMs += DEADLINE_MS;
    story.escalate(id, "no_agent");
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
    const { story: early, id: that } = offered();
    early.wallMs += DEADLINE_MS;
    early.offer(that);
    early.escalate(that, "no_agent");
    expect(kinds(early)).toEqual(["handoff_unjustified"]);
    const { story: known, id: one } = offered();
    known.escalate(one, "agent_type_unknown");
    expect(kinds(known)).toEqual(["handoff_unjustified"]);
    known.handoffs.get(one)!.to_agent_type = "astronomy";
    expect(kinds(known)).toEqual([]);
  });

  test("lets one lapse before its time, or although the taker had written", () => {
    const { story, id } = accepted();
    story.lapse(id);
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
    const { story: written, id: that } = accepted();
    written.write({ op: "create", agent: "b", fence: 2 });
    written.wallMs += FIRST_CHECKPOINT_MS;
    written.lapse(that);
    expect(kinds(written)).toEqual(["handoff_unjustified"]);
  });

  test("cancels without a cause", () => {
    for (const reason of ["withdrawn", "taken", "task_ended", "superseded"] as const) {
      const { story, id } = offered();
      const write = story.write({ op: "update", checkpoint: id, fence: 1 });
      story.cancelled(id, reason, write.command_id!);
      expect([reason, ...kinds(story)]).toEqual([reason, "handoff_unjustified"]);
    }
    const { story, id } = accepted();
    story.withdraw(id, "b", 2);
    expect(kinds(story)).toEqual(["handoff_unjustified"]);
  });

  test("tells nobody of a failure, or people of one that was none", () => {
    const { story, id } = accepted();
    story.wallMs += FIRST_CHECKPOINT_MS;
    story.lapse(id);
    const [alert] = story.alerts.splice(0);
    expect(kinds(story)).toEqual(["alert_missing"]);
    story.alerts.push({ ...alert!, severity: "critical" });
    expect(kinds(story)).toEqual(["alert_missing"]);
    const { story: sound, id: that } = accepted();
    sound.confirm(that, "b");
    sound.alert(that, "escalated", "critical");
    expect(kinds(sound)).toEqual(["alert_unfounded"]);
  });

  test("does not say that a handoff went on", () => {
    const { story, id } = accepted();
    story.confirm(id, "b");
    story.events.splice(-1, 1);
    expect(kinds(story)).toEqual(["event_missing"]);
  });
});
