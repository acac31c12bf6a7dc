/** The checker accepts the removals of a correct fleet, and reports every illegal removal and every lost trace of one. */
import { describe, expect, test } from "vitest";
import { POLICY } from "../../environment/policy.ts";
import { judge } from "../checker.ts";
import { seen } from "../scripted-history.ts";
import { ScriptedRemovals } from "./scripted-removals.ts";

const SILENCE_MS = POLICY.defaults.recovery.silence_ms;
const violationsOf = (history: ScriptedRemovals) => judge(history.evidence()).violations;
const kinds = (history: ScriptedRemovals): string[] => [
  ...new Set(violationsOf(history).map(({ kind }) => kind)),
];
const needsOf = (history: ScriptedRemovals): unknown[] =>
  violationsOf(history).flatMap(({ kind, details }) =>
    kind === "removal_unjustified" ? (details.needs as unknown[]) : [],
  );

/** A task with one more checkpoint than retention keeps; the first one has two versions and is removed. */
function swept(): { readonly history: ScriptedRemovals; readonly ids: string[] } {
  const history = new ScriptedRemovals();
  const [first] = history.create(1);
  history.write({ op: "update", checkpoint: first! });
  const ids = [first!, ...history.createOver(0)];
  history.remove(first!);
  return { history, ids };
}

describe("a correct fleet", () => {
  test("removes what is over the count, and serves the rest", () => {
    const { history, ids } = swept();
    history.latest();
    const gone = history.read("get", []);
    Object.assign(gone, { checkpoint_id: ids[0], seen: { versions: [], removed: [ids[0]] } });
    const page = history.entries.filter(
      ({ op, checkpoint_id }) => op === "create" && checkpoint_id !== ids[0],
    );
    const read = history.read("history", page.map(seen).reverse());
    Object.assign(read, { limit: 40, seen: { ...read.seen, removed: [ids[0]] } });
    expect(violationsOf(history)).toEqual([]);
    expect(judge(history.evidence()).removals).toEqual({ "removed: count": 1 });
  });

  test("removes on request, and repeats the answer to a copy", () => {
    const history = new ScriptedRemovals();
    const [first] = history.create(4);
    const attempt = history.removeOnRequest(first!);
    history.copy(attempt, { outcome: "committed", committed: attempt.committed! });
    const [second] = history.current;
    history.removeOnRequest(second!.checkpoint_id, 1);
    expect(violationsOf(history)).toEqual([]);
  });

  test("removes what the next agent of a handoff does not continue from", () => {
    const history = new ScriptedRemovals();
    const [first] = history.create(1);
    const handoff = history.initiate();
    const [late] = history.create(1);
    history.offer(handoff);
    history.accept(handoff, "b");
    history.confirm(handoff, "b");
    history.removeOnRequest(late!, 1);
    expect(violationsOf(history)).toEqual([]);
    history.removeOnRequest(first!, 1);
    expect(needsOf(history)).toEqual(["a recovery would continue from it"]);
  });

  test("leaves of a completed task the final checkpoint, and removes after the release of a hold", () => {
    const history = new ScriptedRemovals();
    const ids = history.create(3);
    history.hold(["case"]);
    history.completeTask();
    history.hold([]);
    for (const id of ids.slice(0, 2)) history.remove(id, "completed");
    expect(violationsOf(history)).toEqual([]);
  });
});

test("damage to a checkpoint that a removal was about to remove does not reach the later ones", () => {
  const history = new ScriptedRemovals();
  const [oldest, second] = history.createOver(3);
  history.damages.push({
    ...{ line: "damage", at: 0, wall: history.wallMs, task: "t", checkpoint_id: oldest!, version: 1 },
  });
  history.wallMs += 1_000;
  history.remove(oldest!);
  history.wallMs += 60_000;
  history.remove(second!);
  expect(violationsOf(history)).toEqual([]);
});

describe("a removed checkpoint before a damaged ancestor was damaged", () => {
  function damagedBehindRemoved(): { readonly history: ScriptedRemovals; readonly later: string } {
    const history = new ScriptedRemovals("broken-1");
    history.startWork();
    const oldest = history.current[0]!.checkpoint_id;
    const [second, later] = Array.from({ length: 4 }, (_, i) => history.complete(i + 2, "a").command_id!);
    history.removeOnRequest(second!, 1);
    history.damage(oldest);
    history.wallMs += 60_000;
    return { history, later: later! };
  }

  test("stands for it, so that a recovery continues and the later ones may be removed", () => {
    const { history, later } = damagedBehindRemoved();
    history.removeOnRequest(later, 1);
    history.heartbeat("a");
    history.fallSilent();
    history.recover("b", 5);
    history.progress(6, "b");
    history.completeTask();
    expect(violationsOf(history)).toEqual([]);
  });

  test("is no cause to block the task", () => {
    const { history } = damagedBehindRemoved();
    history.heartbeat("a");
    history.fallSilent();
    history.block("chain_broken");
    expect(violationsOf(history).map(({ text }) => text)).toEqual(["a task was blocked without a cause"]);
  });
});

test("the command of an operator is no sign of life of the owner", () => {
  const history = new ScriptedRemovals();
  history.startWork();
  history.wallMs += SILENCE_MS - 1_000;
  history.hold(["case"]);
  history.wallMs += 2_000;
  history.fail("lease_lapsed", "crash");
  history.recover("b", 1);
  expect(violationsOf(history)).toEqual([]);
});

describe("an illegal removal is reported:", () => {
  test("of a task with a hold", () => {
    const { history, ids } = swept();
    history.hold(["case"]);
    history.create(1);
    history.remove(ids[1]!);
    expect(needsOf(history)).toEqual(["a hold is placed on its task"]);
  });

  test("of the checkpoint of an open handoff", () => {
    const history = new ScriptedRemovals();
    const [first] = history.create(1);
    const handoff = history.initiate();
    history.createOver(0);
    history.handoffs.get(handoff)!.checkpoint_id = first!;
    history.remove(first!);
    expect(needsOf(history)).toEqual(["the open handoff starts from it"]);
  });

  test("below the count, and of the checkpoints that a recovery needs", () => {
    const history = new ScriptedRemovals();
    const ids = history.create(4);
    history.remove(ids[0]!);
    expect(needsOf(history)).toEqual(["the reason does not apply"]);
    history.removeOnRequest(ids[2]!, 1);
    expect(needsOf(history)).toContain("a recovery would continue from it");
    history.removeOnRequest(ids[3]!, 1);
    expect(needsOf(history)).toContain("it is the newest checkpoint");
  });

  test("of the last sound checkpoints before damaged ones", () => {
    const history = new ScriptedRemovals();
    const ids = history.createOver(2);
    const damaged = ids.slice(2);
    for (const id of damaged) {
      history.damages.push({
        ...{ line: "damage", at: 0, wall: history.wallMs - 60_000, task: "t", checkpoint_id: id, version: 1 },
      });
      history.hashes.delete(`${id}/1`);
    }
    history.remove(ids[0]!);
    expect(needsOf(history)).toEqual(["a recovery would continue from it"]);
  });

  test("of a checkpoint whose policy promises more time", () => {
    const history = new ScriptedRemovals();
    const [first] = history.createOver(1);
    const body = JSON.stringify({
      checkpoint: { metadata: {}, execution_state: {}, compliance: { retention_policy: "short" } },
    });
    history.sent.set(first!, { line: "sent", command_id: first!, subject: "", body });
    history.remove(first!);
    expect(needsOf(history)).toEqual(["its policy promises more time"]);
  });

  test("of a task that is not completed, as completed, and without a reason", () => {
    const history = new ScriptedRemovals();
    const ids = history.createOver(2);
    history.remove(ids[0]!, "completed");
    history.remove(ids[1]!, "age");
    expect(needsOf(history)).toEqual(["the reason does not apply", "the reason does not apply"]);
  });
});

describe("a lost trace of a removal is reported:", () => {
  test("a version that is missing without an entry", () => {
    const { history, ids } = swept();
    history.hashes.delete(`${ids[1]}/1`);
    expect(kinds(history)).toEqual(["lost"]);
  });

  test("a missing tombstone, and one that was tampered with", () => {
    const { history } = swept();
    const [tombstone] = history.removed.splice(0, 1);
    expect(kinds(history)).toContain("removal_incomplete");
    history.removed.push(tombstone!);
    expect(kinds(history)).toEqual([]);
    for (const change of [{ hash: "0".repeat(64) }, { version: 1 }, { audit_seq: 1 }, { reason: "age" }]) {
      history.removed.splice(0, 1, { ...tombstone!, ...change } as never);
      expect(kinds(history)).toEqual(["removal_incomplete"]);
    }
  });

  test("an entry with another hash than the removed version had", () => {
    const { history } = swept();
    const hash = "0".repeat(64);
    history.entries.at(-1)!.old_hash = hash;
    history.removed[0]!.hash = hash;
    expect(kinds(history)).toEqual(["removal_incomplete"]);
  });

  test("a tombstone without an entry", () => {
    const { history, ids } = swept();
    history.removed.push({ ...history.removed[0]!, checkpoint_id: ids[1]! });
    expect(kinds(history)).toContain("removal_incomplete");
  });

  test("a version of a removed checkpoint that can still be read", () => {
    const { history, ids } = swept();
    history.hashes.set(`${ids[0]}/1`, "0".repeat(64));
    expect(kinds(history)).toEqual(["removal_incomplete"]);
  });

  test("a write to a removed checkpoint", () => {
    const { history, ids } = swept();
    history.write({ op: "update", checkpoint: ids[0]! });
    expect(kinds(history)).toContain("removal_incomplete");
  });

  test("a page that shows a removed checkpoint after its removal, or omits it", () => {
    const { history } = swept();
    const creates = history.entries.filter(({ op }) => op === "create");
    const page = creates.map(seen).reverse();
    history.read("history", page).limit = 40;
    expect(kinds(history)).toEqual(["not_linearizable"]);
    history.attempts.pop();
    history.read("history", page.slice(0, -1)).limit = 40;
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("a removed checkpoint that is unknown to a reader, or was removed for a reader before", () => {
    const { history, ids } = swept();
    history.read("get", []).checkpoint_id = ids[0]!;
    expect(kinds(history)).toEqual(["not_linearizable"]);
    const early = history.attempts.at(-1)!;
    Object.assign(early, { checkpoint_id: ids[1], seen: { versions: [], removed: [ids[1]] } });
    expect(kinds(history)).toEqual(["not_linearizable"]);
  });

  test("a finding of the scrub", () => {
    const { history, ids } = swept();
    const finding = { checkpoint_id: ids[0]!, version: 1, details: "lost", quarantined: false };
    history.findings.push({ task_id: "t", kind: "tombstone", ...finding, found_at: "", pass: 1 });
    expect(kinds(history)).toEqual(["scrub_failed"]);
  });
});
