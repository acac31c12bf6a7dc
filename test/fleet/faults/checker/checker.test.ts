/** The checker is silent about what a correct fleet does, and names each kind of lie that a broken one could tell. */
import { describe, expect, test } from "vitest";
import { judge } from "./checker.ts";
import { Story, seen } from "./story.ts";

const kinds = (story: Story): string[] => [
  ...new Set(judge(story.evidence()).violations.map(({ kind }) => kind)),
];

/** Two checkpoints, one of them updated. */
function usual(): Story {
  const story = new Story();
  const first = story.write({ op: "create" });
  story.write({ op: "update", checkpoint: first.command_id!, expected: 1 });
  story.write({ op: "create", expected: 1 });
  return story;
}

describe("a correct fleet", () => {
  test("reads between writes, replays, refusals and open outcomes are no violation", () => {
    const story = usual();
    story.latest();
    const [first] = story.attempts;
    story.copy(first!, { outcome: "committed", committed: first!.committed! });
    story.refuse({ op: "create", expected: 7 }, "CONFLICT");
    const open = story.ask({ op: "create" });
    story.apply(open, undefined);
    story.copy(open, { outcome: "committed", committed: factsOf(story) }, "resolving");
    const gone = story.ask({ op: "update", checkpoint: first!.command_id! });
    story.copy(gone, { outcome: "refused", code: "FENCED" }, "resolving");
    expect(judge(story.evidence()).violations).toEqual([]);
  });

  test("a read beside a write may see it or not", () => {
    const story = usual();
    const before = story.latest();
    const write = story.write({ op: "create" });
    const after = story.latest();
    Object.assign(write, { begin: 1_000, end: 2_000 });
    Object.assign(before, { begin: 1_100, end: 1_200 });
    Object.assign(after, { begin: 1_300, end: 1_400 });
    expect(kinds(story)).toEqual([]);
  });

  test("superseded agents are counted", () => {
    const story = new Story();
    story.write({ op: "take" });
    story.write({ op: "take", agent: "b" });
    story.refuse({ op: "create", fence: 1 }, "FENCED");
    story.write({ op: "create", agent: "b", fence: 2 });
    const verdict = judge(story.evidence());
    expect(verdict.violations).toEqual([]);
    expect(verdict.zombies).toEqual({ tried: 1, refused: 1, unanswered: 0, after_handoff: 0 });
  });

  test("an agent that was killed repeats what it had queued, in the same order", () => {
    const story = usual();
    const [first, second] = [story.ask({ op: "create" }), story.ask({ op: "create" })];
    for (const one of [first, second]) one.outcome = "queued";
    for (const one of [first, second]) {
      Object.assign(story.copy(one, { outcome: "spooled" }), { copy: undefined });
    }
    for (const one of [first, second]) story.apply(one, undefined);
    expect(kinds(story)).toEqual([]);
  });

  test("a queued command may be applied later, or become a dead letter", () => {
    const story = usual();
    const [applied, dead] = [story.ask({ op: "create" }), story.ask({ op: "create" })];
    applied.outcome = "queued";
    dead.outcome = "queued";
    story.apply(applied, undefined);
    story.dead.push({ command_id: dead.command_id!, reason: "conflict", at: story.wallMs });
    const twice = story.ask({ op: "create" });
    twice.outcome = "queued";
    story.dead.push({ command_id: twice.command_id!, reason: "conflict", at: story.wallMs });
    story.apply(twice, undefined);
    expect(kinds(story)).toEqual([]);
  });
});

const factsOf = (story: Story) => {
  const entry = story.entries.at(-1)!;
  const seq = story.current.findIndex(({ checkpoint_id }) => checkpoint_id === entry.checkpoint_id) + 1;
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
    const story = usual();
    const write = story.ask({ op: "create" });
    write.outcome = "committed";
    write.committed = { ...factsOf(story), checkpoint_id: write.command_id! };
    expect(kinds(story)).toContain("lost");
  });

  test("keeps another version than it answered", () => {
    const story = usual();
    story.hashes.set(`${story.current[1]!.checkpoint_id}/1`, "0".repeat(64));
    expect(kinds(story)).toEqual(["lost"]);
  });

  test("applies a command twice", () => {
    const story = usual();
    const again = story.copy(story.attempts[1]!, { outcome: "unknown" });
    story.apply(again, story.current[0]!.checkpoint_id);
    expect(kinds(story)).toContain("applied_twice");
  });

  test("gives a copy another answer", () => {
    const story = usual();
    const [first] = story.attempts;
    story.copy(first!, { outcome: "committed", committed: { ...first!.committed!, position: "9" } });
    expect(kinds(story)).toEqual(["answers_differ"]);
  });

  test("applies what it refused", () => {
    const story = usual();
    story.apply(story.refuse({ op: "create" }, "UNAVAILABLE"), undefined);
    expect(kinds(story)).toEqual(["refused_but_applied"]);
  });

  test("writes what nobody asked for", () => {
    const story = usual();
    story.apply({ ...story.attempts[0]!, command_id: "nobody" }, undefined);
    expect(kinds(story)).toEqual(["unasked"]);
  });

  test("ignores an expected version", () => {
    const story = usual();
    story.write({ op: "create", expected: 7 });
    expect(kinds(story)).toEqual(["expectation_broken"]);
  });

  test("leaves an outcome open for ever", () => {
    const story = usual();
    story.copy(story.ask({ op: "create" }), { outcome: "unknown" }, "resolving");
    expect(kinds(story)).toEqual(["unresolved"]);
  });

  test("puts a write behind one that began after it was answered", () => {
    const story = new Story();
    const [first, second] = [story.ask({ op: "create" }), story.ask({ op: "create" })];
    second.committed = story.apply(second, undefined);
    first.committed = story.apply(first, undefined);
    first.outcome = "committed";
    second.outcome = "committed";
    expect(kinds(story)).toEqual(["not_linearizable"]);
  });

  test("serves an old checkpoint after a newer one was answered", () => {
    const story = usual();
    const old = seen(story.entries[1]!);
    story.read("latest", [old]);
    expect(kinds(story)).toEqual(["not_linearizable"]);
  });

  test("serves an old version after the newer one was read", () => {
    const story = usual();
    const update = story.ask({ op: "update" });
    story.apply(update, story.current[1]!.checkpoint_id);
    const newer = seen(story.entries[3]!);
    const older = seen(story.entries[2]!);
    update.end = Number.POSITIVE_INFINITY;
    story.read("latest", [newer]);
    expect(kinds(story).filter((kind) => kind !== "unresolved")).toEqual([]);
    story.read("latest", [older]);
    expect(kinds(story)).toContain("not_linearizable");
  });

  test("serves a checkpoint before anybody asked for it", () => {
    const story = usual();
    const read = story.latest();
    Object.assign(read, { begin: 1, end: 2 });
    expect(kinds(story)).toEqual(["not_linearizable"]);
  });

  test("serves a version that was never written", () => {
    const story = usual();
    story.read("get", [{ ...seen(story.entries[0]!), hash: "0".repeat(64) }]);
    expect(kinds(story)).toEqual(["not_linearizable", "corrupt_served"]);
  });

  test("leaves a checkpoint out of a history", () => {
    const story = usual();
    const third = story.write({ op: "create" });
    const page = story.read("history", [seen(story.entries[3]!), seen(story.entries[1]!)]);
    page.limit = 10;
    expect(third.outcome).toBe("committed");
    expect(kinds(story)).toEqual(["not_linearizable"]);
  });

  test("lets a superseded agent write", () => {
    const story = new Story();
    story.write({ op: "take" });
    story.write({ op: "take", agent: "b" });
    story.write({ op: "create", fence: 1 });
    expect(kinds(story)).toEqual(["zombie_accepted"]);
    expect(judge(story.evidence()).zombies).toEqual({
      tried: 1,
      refused: 0,
      unanswered: 0,
      after_handoff: 0,
    });
  });

  test("lets a stranger write to a task that has an owner", () => {
    const story = new Story();
    story.write({ op: "take" });
    story.write({ op: "create", agent: "b" });
    expect(kinds(story)).toEqual(["zombie_accepted"]);
  });

  test("skips an audit entry", () => {
    const story = usual();
    story.entries.splice(1, 1);
    expect(kinds(story)).toEqual(expect.arrayContaining(["lost", "chain_broken", "audit_incomplete"]));
  });

  test("changes an audit entry afterwards", () => {
    const story = usual();
    const evidence = story.evidence();
    const task = evidence.truth.tasks.get("t")!;
    const changed = task.records.map((record, i) =>
      i === 0 ? { ...record, entry: record.entry.replace("create", "link") } : record,
    );
    const tasks = new Map([["t", { ...task, records: changed }]]);
    const { violations } = judge({ ...evidence, truth: { ...evidence.truth, tasks } });
    expect(violations.map(({ kind }) => kind)).toEqual(["chain_broken"]);
  });

  test("changes a task without an entry", () => {
    const story = usual();
    story.bells += 1;
    expect(kinds(story)).toEqual(["audit_incomplete"]);
    story.bells -= 1;
    story.current.push({ checkpoint_id: "hidden", version: 1 });
    expect(kinds(story)).toEqual(expect.arrayContaining(["audit_incomplete", "state_wrong"]));
  });

  test("jumps between states", () => {
    const story = usual();
    story.entries[1]!.state_from = "failed";
    expect(kinds(story)).toEqual(["state_wrong"]);
  });

  test("does not publish a transition", () => {
    const story = usual();
    story.events.splice(1, 1);
    expect(kinds(story)).toEqual(["event_missing"]);
  });

  test("publishes out of order; a duplicate is none", () => {
    const story = usual();
    story.events.push(story.events[0]!);
    expect(kinds(story)).toEqual([]);
    story.events.reverse();
    expect(kinds(story)).toEqual(["event_out_of_order"]);
  });

  test("publishes what was never committed", () => {
    const story = usual();
    story.events.push({ ...story.events[0]!, sequence: 9 });
    expect(kinds(story)).toEqual(["event_unfounded"]);
  });

  test("drops a queued command", () => {
    const story = usual();
    story.ask({ op: "create" }).outcome = "queued";
    expect(kinds(story)).toEqual(["queued_lost"]);
  });

  test("applies a queued command and calls it dead after that", () => {
    const story = usual();
    const queued = story.ask({ op: "create" });
    queued.outcome = "queued";
    story.apply(queued, undefined);
    story.dead.push({ command_id: queued.command_id!, reason: "conflict", at: story.wallMs + 60_000 });
    expect(kinds(story)).toEqual(["queued_lost"]);
  });

  test("lets a later command overtake a queued one", () => {
    const story = usual();
    const queued = story.ask({ op: "create" });
    queued.outcome = "queued";
    const later = story.write({ op: "create" });
    story.apply(queued, undefined);
    expect(later.outcome).toBe("committed");
    expect(kinds(story)).toEqual(["queued_out_of_order"]);
  });

  test("damages what it stored", () => {
    const story = usual();
    const read = story.read("latest", []);
    Object.assign(read, { outcome: "refused", code: "CORRUPT", seen: undefined });
    expect(kinds(story)).toEqual(["corrupt"]);
  });
});
