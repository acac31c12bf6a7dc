/** The checker reports nothing about the handoffs of a correct fleet, and every violation of a broken one. */
import { describe, expect, test } from "vitest";
import { judge } from "../checker.ts";
import { DEADLINE_MS, FIRST_CHECKPOINT_MS, ScriptedHandoffs } from "./scripted-handoffs.ts";

const kinds = (history: ScriptedHandoffs): string[] => [
  ...new Set(judge(history.evidence()).violations.map(({ kind }) => kind)),
];

/** A task of `a` with an offered handoff. */
function offered(): { history: ScriptedHandoffs; id: string } {
  const history = new ScriptedHandoffs();
  history.write({ op: "take" });
  history.write({ op: "create", fence: 1 });
  const id = history.handOff({ fence: 1 });
  history.offer(id);
  return { history, id };
}

function accepted(): { history: ScriptedHandoffs; id: string } {
  const { history, id } = offered();
  history.accept(id, "b");
  return { history, id };
}

describe("a correct fleet", () => {
  test("hands a task off, and refuses the superseded agent", () => {
    const { history, id } = accepted();
    history.refuse({ op: "create", fence: 1 }, "FENCED");
    const first = history.confirm(id, "b");
    // The same command finalizes the checkpoint that was handed off.
    history.apply({ ...first, op: "finalize" }, id);
    history.write({ op: "create", agent: "b", fence: 2 });
    const verdict = judge(history.evidence(), [history.wallMs + 1]);
    expect(verdict.violations).toEqual([]);
    expect(verdict.zombies).toEqual({ tried: 1, refused: 1, unanswered: 0, after_handoff: 1 });
    expect(verdict.handoffs).toMatchObject({ requested: 1, accepted: 1, ends: { confirmed: 1 } });
  });

  test("repeats an offer that no agent accepted, and escalates the last one", () => {
    const { history, id } = offered();
    history.wallMs += DEADLINE_MS;
    history.offer(id);
    const verdict = judge(history.evidence(), [history.wallMs]);
    expect(verdict.handoffs).toMatchObject({ offered_again: 1, open_at_kills: { offered: 1 } });
    history.wallMs += DEADLINE_MS;
    history.escalate(id, "no_agent");
    expect(kinds(history)).toEqual([]);
  });

  test("lets an unconfirmed handoff lapse, and accepts later checkpoints of its owner", () => {
    const { history, id } = accepted();
    history.wallMs += FIRST_CHECKPOINT_MS;
    history.lapse(id);
    history.write({ op: "create", agent: "b", fence: 2 });
    expect(kinds(history)).toEqual([]);
  });

  test("lets a handoff lapse whose agent released the task, and then wrote to it without a fence", () => {
    const { history, id } = accepted();
    history.write({ op: "release", agent: "b", fence: 2 });
    history.write({ op: "create", agent: "b" });
    history.wallMs += FIRST_CHECKPOINT_MS;
    history.lapse(id);
    expect(kinds(history)).toEqual([]);
  });

  test("cancels a handoff on request, after a take, after the end of the task, and for another handoff", () => {
    const withdrawn = offered();
    withdrawn.history.withdraw(withdrawn.id, "a", 1);
    const again = withdrawn.history.initiate("a", 1);
    const taking = withdrawn.history.write({ op: "take", agent: "c" });
    withdrawn.history.cancel(again, "taken", taking.command_id!);
    expect(kinds(withdrawn.history)).toEqual([]);

    const ended = accepted();
    const last = ended.history.write({ op: "finalize", agent: "b", fence: 2, checkpoint: ended.id });
    ended.history.cancel(ended.id, "task_ended", last.command_id!);
    expect(kinds(ended.history)).toEqual([]);

    const { history, id } = offered();
    const next = history.write({ op: "create", fence: 1 });
    history.cancel(id, "superseded", next.command_id!);
    const followed = history.initiate("a", 1);
    Object.assign(history.entries.at(-1)!, { command_id: next.command_id, handoff_id: next.command_id });
    history.handoffs.set(next.command_id!, {
      ...history.handoffs.get(followed)!,
      handoff_id: next.command_id!,
    });
    history.handoffs.delete(followed);
    history.attempts.pop();
    Object.assign(next, {
      handoff: next.command_id,
      committed: { ...next.committed, handoff: next.command_id },
    });
    history.withdraw(next.command_id!, "a", 1);
    expect(kinds(history)).toEqual([]);
  });
});

describe("a broken fleet", () => {
  test("loses a committed handoff", () => {
    const { history, id } = offered();
    history.withdraw(id, "a", 1);
    const attempt = history.write({ op: "create", fence: 1 });
    Object.assign(attempt, {
      handoff: attempt.command_id,
      committed: { ...attempt.committed, handoff: attempt.command_id },
    });
    expect(kinds(history)).toEqual(["handoff_lost"]);
  });

  test("loses the record of a handoff, or stores a different one", () => {
    const { history, id } = accepted();
    history.confirm(id, "b");
    history.handoffs.get(id)!.accepted_by = "c";
    expect(kinds(history)).toEqual(["handoff_lost"]);
    history.handoffs.delete(id);
    expect(kinds(history)).toEqual(["handoff_lost"]);
    history.handoffs.set("unknown", { handoff_id: "unknown", task_id: "t", state: "offered" } as never);
    expect(kinds(history)).toEqual(["handoff_lost"]);
  });

  test("leaves a handoff and its task open", () => {
    const { history } = offered();
    expect(kinds(history)).toEqual(["handoff_unfinished"]);
    expect(judge(history.evidence()).violations).toHaveLength(2);
  });

  test("accepts a handoff twice", () => {
    const { history, id } = accepted();
    history.handoffs.get(id)!.state = "offered";
    history.accept(id, "c");
    history.confirm(id, "c");
    expect(kinds(history)).toEqual(expect.arrayContaining(["handoff_taken_twice", "state_wrong"]));
  });

  test("answers two acceptances as committed and stores one of them", () => {
    const { history, id } = accepted();
    const second = history.acknowledge(id, "c");
    second.outcome = "committed";
    second.committed = { ...history.attempts.at(-2)!.committed! };
    history.confirm(id, "b");
    expect(kinds(history)).toEqual(expect.arrayContaining(["handoff_taken_twice", "two_owners", "lost"]));
  });

  test("does not raise the fence, so that the superseded agent can write", () => {
    const { history, id } = offered();
    history.accept(id, "b");
    history.fence = 1;
    history.entries.at(-1)!.fence = 1;
    history.write({ op: "create", fence: 1 });
    history.confirm(id, "b", 1);
    expect(kinds(history)).toEqual(expect.arrayContaining(["two_owners", "zombie_accepted", "state_wrong"]));
  });

  test("accepts a write under another agent's fence, or gives a task to another agent than the caller", () => {
    const { history, id } = accepted();
    history.confirm(id, "b");
    history.write({ op: "create", agent: "c", fence: 2 });
    expect(kinds(history)).toEqual(["two_owners"]);
    const other = new ScriptedHandoffs();
    other.write({ op: "take", agent: "a" });
    other.entries[0]!.owner_to = "b";
    other.owner = "b";
    expect(kinds(other)).toEqual(["two_owners"]);
  });

  test("accepts a handoff too late, or without an offer", () => {
    const { history, id } = offered();
    history.wallMs += DEADLINE_MS + 1;
    history.accept(id, "b");
    history.confirm(id, "b");
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
    const { history: another, id: that } = offered();
    another.acknowledge(that, "b").attempt = 2;
    Object.assign(another.attempts.at(-1)!, { outcome: "refused", code: "CONFLICT" });
    another.withdraw(that, "a", 1);
    expect(kinds(another)).toEqual(["event_unfounded"]);
  });

  test("accepts another offer than the latest", () => {
    const { history, id } = accepted();
    history.confirm(id, "b");
    history.entries.find(({ op }) => op === "acknowledge")!.offer_digest = "0".repeat(64);
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
  });

  test("repeats an offer while the previous one is open", () => {
    const { history, id } = offered();
    history.wallMs += DEADLINE_MS - 1;
    history.offer(id);
    history.withdraw(id, "a", 1);
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
  });

  test("confirms by a checkpoint of another agent, or by a later one", () => {
    const { history, id } = accepted();
    const first = history.confirm(id, "b");
    first.agent = "c";
    expect(kinds(history)).toEqual(expect.arrayContaining(["handoff_unjustified", "two_owners"]));
    const { history: late, id: that } = accepted();
    late.write({ op: "create", agent: "b", fence: 2 });
    late.confirm(that, "b");
    expect(kinds(late)).toEqual(["handoff_unjustified"]);
  });

  test("rejects an undamaged checkpoint", () => {
    const history = new ScriptedHandoffs();
    history.reject(history.handOff());
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
  });

  test("escalates during an offer, before the last offer, or for a known agent type", () => {
    const { history, id } = offered();
    history.wallMs += DEADLINE_MS;
    history.escalate(id, "no_agent");
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
    const { history: early, id: that } = offered();
    early.wallMs += DEADLINE_MS;
    early.offer(that);
    early.escalate(that, "no_agent");
    expect(kinds(early)).toEqual(["handoff_unjustified"]);
    const { history: known, id: one } = offered();
    known.escalate(one, "agent_type_unknown");
    expect(kinds(known)).toEqual(["handoff_unjustified"]);
    known.handoffs.get(one)!.to_agent_type = "astronomy";
    expect(kinds(known)).toEqual([]);
  });

  test("lets a handoff lapse before its deadline, or after a checkpoint", () => {
    const { history, id } = accepted();
    history.lapse(id);
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
    const { history: written, id: that } = accepted();
    written.write({ op: "create", agent: "b", fence: 2 });
    written.wallMs += FIRST_CHECKPOINT_MS;
    written.lapse(that);
    expect(kinds(written)).toEqual(["handoff_unjustified"]);
  });

  test("cancels without a cause", () => {
    for (const reason of ["withdrawn", "taken", "task_ended", "superseded"] as const) {
      const { history, id } = offered();
      const write = history.write({ op: "update", checkpoint: id, fence: 1 });
      history.cancel(id, reason, write.command_id!);
      expect([reason, ...kinds(history)]).toEqual([reason, "handoff_unjustified"]);
    }
    const { history, id } = accepted();
    history.withdraw(id, "b", 2);
    expect(kinds(history)).toEqual(["handoff_unjustified"]);
  });

  test("alerts no operator of a failure, or alerts without a failure", () => {
    const { history, id } = accepted();
    history.wallMs += FIRST_CHECKPOINT_MS;
    history.lapse(id);
    const [alert] = history.alerts.splice(0);
    expect(kinds(history)).toEqual(["alert_missing"]);
    history.alerts.push({ ...alert!, severity: "critical" });
    expect(kinds(history)).toEqual(["alert_missing"]);
    const { history: sound, id: that } = accepted();
    sound.confirm(that, "b");
    sound.alert(that, "escalated", "critical");
    expect(kinds(sound)).toEqual(["alert_unfounded"]);
  });

  test("does not publish the confirmation of a handoff", () => {
    const { history, id } = accepted();
    history.confirm(id, "b");
    history.events.splice(-1, 1);
    expect(kinds(history)).toEqual(["event_missing"]);
  });
});
