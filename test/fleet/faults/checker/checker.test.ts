/** The checker reports nothing about a correct fleet, and every kind of violation of a broken one. */
import { describe, expect, test } from "vitest";
import { judge } from "./checker.ts";
import { ScriptedHistory, seen } from "./scripted-history.ts";

const kinds = (history: ScriptedHistory): string[] => [
  ...new Set(judge(history.evidence()).violations.map(({ kind }) => kind)),
];

/** A history with two checkpoints, one of them updated. */
function updated(): ScriptedHistory {
  const history = new ScriptedHistory();
  const first = history.write({ op: "create" });
  history.write({ op: "update", checkpoint: first.command_id!, expected: 1 });
  history.write({ op: "create", expected: 1 });
  return history;
}

describe("a correct fleet", () => {
  test("may have reads between writes, replays, refusals and open outcomes", () => {
    const history = updated();
    history.latest();
    const [first] = history.attempts;
    history.copy(first!, { outcome: "committed", committed: first!.committed! });
    history.refuse({ op: "create", expected: 7 }, "CONFLICT");
    const open = history.send({ op: "create" });
    history.apply(open, undefined);
    history.copy(open, { outcome: "committed", committed: factsOf(history) }, "resolving");
    const refused = history.send({ op: "update", checkpoint: first!.command_id! });
    history.copy(refused, { outcome: "refused", code: "FENCED" }, "resolving");
    expect(judge(history.evidence()).violations).toEqual([]);
  });

  test("may return or miss a concurrent write in a read", () => {
    const history = updated();
    const before = history.latest();
    const write = history.write({ op: "create" });
    const after = history.latest();
    Object.assign(write, { begin: 1_000, end: 2_000 });
    Object.assign(before, { begin: 1_100, end: 1_200 });
    Object.assign(after, { begin: 1_300, end: 1_400 });
    expect(kinds(history)).toEqual([]);
  });

  test("may finalize a draft that a newer checkpoint follows", () => {
    const history = updated();
    const id = history.current[0]!.checkpoint_id;
    history.finalizeSuperseded(id);
    history.latest();
    history.read("get", [seen(history.entries.at(-1)!)]);
    history.refuse({ op: "update", checkpoint: id }, "FINALIZED");
    expect(judge(history.evidence()).violations).toEqual([]);
    history.hashes.delete(`${id}/3`);
    expect(kinds(history)).toEqual(["lost"]);
  });

  test("has its superseded agents counted", () => {
    const history = new ScriptedHistory();
    history.write({ op: "take" });
    history.write({ op: "take", agent: "b" });
    history.refuse({ op: "create", fence: 1 }, "FENCED");
    history.write({ op: "create", agent: "b", fence: 2 });
    const verdict = judge(history.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.zombies).toEqual({ tried: 1, refused: 1, unanswered: 0, after_handoff: 0 });
  });

  test("may repeat the queued commands of a killed agent in their order", () => {
    const history = updated();
    const [first, second] = [history.send({ op: "create" }), history.send({ op: "create" })];
    for (const one of [first, second]) one.outcome = "queued";
    for (const one of [first, second]) {
      Object.assign(history.copy(one, { outcome: "spooled" }), { copy: undefined });
    }
    for (const one of [first, second]) history.apply(one, undefined);
    expect(kinds(history)).toEqual([]);
  });

  test("may apply a queued command after one of the next process of an agent without a spool", () => {
    const history = updated();
    const queued = history.send({ op: "create" });
    Object.assign(queued, { outcome: "queued", call: "agent.1/7" });
    history.write({ op: "create" }).call = "agent.2/1";
    history.apply(queued, undefined);
    const evidence = history.evidence();
    expect(judge({ ...evidence, hasSpools: false }).violations).toEqual([]);
    expect(judge(evidence).violations).toHaveLength(1);
  });

  test("may apply a queued command later, or make it a dead letter", () => {
    const history = updated();
    const [applied, dead] = [history.send({ op: "create" }), history.send({ op: "create" })];
    applied.outcome = "queued";
    dead.outcome = "queued";
    history.apply(applied, undefined);
    history.dead.push({ command_id: dead.command_id!, reason: "conflict", at: history.wallMs });
    const twice = history.send({ op: "create" });
    twice.outcome = "queued";
    history.dead.push({ command_id: twice.command_id!, reason: "conflict", at: history.wallMs });
    history.apply(twice, undefined);
    expect(kinds(history)).toEqual([]);
  });
});

const factsOf = (history: ScriptedHistory) => {
  const entry = history.entries.at(-1)!;
  const seq = history.current.findIndex(({ checkpoint_id }) => checkpoint_id === entry.checkpoint_id) + 1;
  return {
    checkpoint_id: entry.checkpoint_id,
    version: entry.version,
    seq,
    hash: entry.new_hash,
    fence: null,
    handoff: null,
    position: String(entry.seq),
  };
};

describe("a broken fleet", () => {
  test("loses an answered write", () => {
    const history = updated();
    const write = history.send({ op: "create" });
    write.outcome = "committed";
    write.committed = { ...factsOf(history), checkpoint_id: write.command_id! };
    expect(kinds(history)).toContain("lost");
  });

  test("stores another version than it answered", () => {
    const history = updated();
    history.hashes.set(`${history.current[1]!.checkpoint_id}/1`, "0".repeat(64));
    expect(kinds(history)).toEqual(["lost"]);
  });

  test("applies a command twice", () => {
    const history = updated();
    const again = history.copy(history.attempts[1]!, { outcome: "unknown" });
    history.apply(again, history.current[0]!.checkpoint_id);
    expect(kinds(history)).toContain("applied_twice");
  });

  test("answers a copy differently", () => {
    const history = updated();
    const [first] = history.attempts;
    history.copy(first!, { outcome: "committed", committed: { ...first!.committed!, position: "9" } });
    expect(kinds(history)).toEqual(["answers_differ"]);
  });

  test("applies a refused command", () => {
    const history = updated();
    history.apply(history.refuse({ op: "create" }, "UNAVAILABLE"), undefined);
    expect(kinds(history)).toEqual(["refused_but_applied"]);
  });

  test("applies a command that no agent sent", () => {
    const history = updated();
    history.apply({ ...history.attempts[0]!, command_id: "unsent" }, undefined);
    expect(kinds(history)).toEqual(["unasked"]);
  });

  test("ignores an expected version", () => {
    const history = updated();
    history.write({ op: "create", expected: 7 });
    expect(kinds(history)).toEqual(["expectation_broken"]);
  });

  test("leaves an outcome open", () => {
    const history = updated();
    history.copy(history.send({ op: "create" }), { outcome: "unknown" }, "resolving");
    expect(kinds(history)).toEqual(["unresolved"]);
  });

  test("applies a write after one that began later than its answer", () => {
    const history = new ScriptedHistory();
    const [first, second] = [history.send({ op: "create" }), history.send({ op: "create" })];
    second.committed = history.apply(second, undefined);
    first.committed = history.apply(first, undefined);
    first.outcome = "committed";
    second.outcome = "committed";
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("serves an old checkpoint after the answer to a newer one", () => {
    const history = updated();
    const old = seen(history.entries[1]!);
    history.read("latest", [old]);
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("serves an old version after a read of the newer one", () => {
    const history = updated();
    const update = history.send({ op: "update" });
    history.apply(update, history.current[1]!.checkpoint_id);
    const newer = seen(history.entries[3]!);
    const older = seen(history.entries[2]!);
    update.end = Number.POSITIVE_INFINITY;
    history.read("latest", [newer]);
    expect(kinds(history).filter((kind) => kind !== "unresolved")).toEqual([]);
    history.read("latest", [older]);
    expect(kinds(history)).toContain("not_linearizable");
  });

  test("serves a checkpoint before its command", () => {
    const history = updated();
    const read = history.latest();
    Object.assign(read, { begin: 1, end: 2 });
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("serves a version that was never written", () => {
    const history = updated();
    history.read("get", [{ ...seen(history.entries[0]!), hash: "0".repeat(64) }]);
    expect(kinds(history)).toEqual(["not_linearizable", "corrupt_served"]);
  });

  test("omits a checkpoint from a history", () => {
    const history = updated();
    const third = history.write({ op: "create" });
    const page = history.read("history", [seen(history.entries[3]!), seen(history.entries[1]!)]);
    page.limit = 10;
    expect(third.outcome).toBe("committed");
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("accepts a write of a superseded agent", () => {
    const history = new ScriptedHistory();
    history.write({ op: "take" });
    history.write({ op: "take", agent: "b" });
    history.write({ op: "create", fence: 1 });
    expect(kinds(history)).toEqual(["zombie_accepted"]);
    expect(judge(history.evidence()).zombies).toEqual({
      tried: 1,
      refused: 0,
      unanswered: 0,
      after_handoff: 0,
    });
  });

  test("accepts a write of another agent to an owned task", () => {
    const history = new ScriptedHistory();
    history.write({ op: "take" });
    history.write({ op: "create", agent: "b" });
    expect(kinds(history)).toEqual(["zombie_accepted"]);
  });

  test("skips an audit entry", () => {
    const history = updated();
    history.entries.splice(1, 1);
    expect(kinds(history)).toEqual(expect.arrayContaining(["lost", "chain_broken", "audit_incomplete"]));
  });

  test("changes a written audit entry", () => {
    const history = updated();
    const evidence = history.evidence();
    const task = evidence.finalState.tasks.get("t")!;
    const changed = task.records.map((record, i) =>
      i === 0 ? { ...record, entry: record.entry.replace("create", "link") } : record,
    );
    const tasks = new Map([["t", { ...task, records: changed }]]);
    const { violations } = judge({ ...evidence, finalState: { ...evidence.finalState, tasks } });
    expect(violations.map(({ kind }) => kind)).toEqual(["chain_broken"]);
  });

  test("changes a task without an entry", () => {
    const history = updated();
    history.transitions += 1;
    expect(kinds(history)).toEqual(["audit_incomplete"]);
    history.transitions -= 1;
    history.current.push({ checkpoint_id: "hidden", version: 1 });
    expect(kinds(history)).toEqual(expect.arrayContaining(["audit_incomplete", "state_wrong"]));
  });

  test("jumps between states", () => {
    const history = updated();
    history.entries[1]!.state_from = "failed";
    expect(kinds(history)).toEqual(["state_wrong"]);
  });

  test("does not publish a transition", () => {
    const history = updated();
    history.events.splice(1, 1);
    expect(kinds(history)).toEqual(["event_missing"]);
  });

  test("publishes out of order, but may publish a duplicate", () => {
    const history = updated();
    history.events.push(history.events[0]!);
    expect(kinds(history)).toEqual([]);
    history.events.reverse();
    expect(kinds(history)).toEqual(["event_out_of_order"]);
  });

  test("publishes an uncommitted transition", () => {
    const history = updated();
    history.events.push({ ...history.events[0]!, sequence: 9 });
    expect(kinds(history)).toEqual(["event_unfounded"]);
  });

  test("drops a queued command", () => {
    const history = updated();
    history.send({ op: "create" }).outcome = "queued";
    expect(kinds(history)).toEqual(["queued_lost"]);
  });

  test("makes an applied command a dead letter", () => {
    const history = updated();
    const queued = history.send({ op: "create" });
    queued.outcome = "queued";
    history.apply(queued, undefined);
    history.dead.push({ command_id: queued.command_id!, reason: "conflict", at: history.wallMs + 60_000 });
    expect(kinds(history)).toEqual(["queued_lost"]);
  });

  test("applies a later command before a queued one", () => {
    const history = updated();
    const queued = history.send({ op: "create" });
    queued.outcome = "queued";
    const later = history.write({ op: "create" });
    history.apply(queued, undefined);
    expect(later.outcome).toBe("committed");
    expect(kinds(history)).toEqual(["queued_out_of_order"]);
    expect(judge({ ...history.evidence(), hasSpools: false }).violations).toHaveLength(1);
  });

  test("damages a stored checkpoint", () => {
    const history = updated();
    const read = history.read("latest", []);
    Object.assign(read, { outcome: "refused", code: "CORRUPT", seen: undefined });
    expect(kinds(history)).toEqual(["corrupt"]);
  });
});
