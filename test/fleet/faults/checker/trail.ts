/**
 * The check of the audit trail of each task against its state: the hash chain is valid, every version has exactly one entry and every entry
 * its version or its removal, each entry begins at the end of the previous one, and all entries together yield the head. The system's count
 * of transitions equals the number of entries.
 */
import { isDeepStrictEqual } from "node:util";
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import { type AuditEntry, comparable, replay } from "../../../../shared/lifecycle/replay.ts";
import {
  HANDOFF_TABLE,
  type HandoffState,
  isOpenHandoff,
} from "../../../../shared/protocol/handoff-states.ts";
import { isEnded, TASK_STATES, type TaskState } from "../../../../shared/protocol/task.ts";
import {
  type Entry,
  type Evidence,
  type FinalTask,
  type Violation,
  versionName,
  WRITES_VERSION,
} from "./evidence.ts";
import { givesOwnership, revokesOwnership } from "./owners.ts";
import { removedIn } from "./retention/tombstones.ts";

export function checkTrails({ finalState, damages }: Pick<Evidence, "finalState" | "damages">): Violation[] {
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  // Damage that conflicts with a write is recorded and made again: the last record counts.
  const versions = new Map(damages.map(({ checkpoint_id, version }) => [checkpoint_id, version]));
  const damagedVersions = new Set([...versions].map(([id, version]) => versionName(id, version)));
  const found = [...finalState.tasks.values()].flatMap((task) => [
    ...checkChain(task),
    ...checkVersions(task, damagedVersions),
    ...checkStates(task, damaged),
    ...checkReplay(task),
  ]);
  const entries = [...finalState.tasks.values()].reduce((sum, task) => sum + task.entries.length, 0);
  if (entries !== finalState.transitions) {
    found.push({
      kind: "audit_incomplete",
      task: null,
      text: "the number of audit entries differs from the number of transitions",
      details: { entries, transitions: finalState.transitions },
    });
  }
  return found;
}

/** The trail alone leads to the stored head. */
function checkReplay({ task, record, entries }: FinalTask): Violation[] {
  if (record === null) return [];
  const replayed = replay(entries as unknown as readonly AuditEntry[]);
  const [expected, found] = [comparable(record), replayed && comparable(replayed)];
  if (isDeepStrictEqual(found, expected)) return [];
  const text = "the replay of the audit trail differs from the head";
  return [{ kind: "audit_incomplete", task, text, details: { expected, found } }];
}

function checkChain({ task, head, records }: FinalTask): Violation[] {
  const verifier = createChainVerifier();
  for (const record of records) verifier.add(record);
  const { ok, problems } = verifier.finish({ seq: head.audit_seq, hash: head.audit_hash });
  return ok
    ? []
    : [
        {
          kind: "chain_broken",
          task,
          text: "the audit chain is broken",
          details: { problems: problems.slice(0, 5) },
        },
      ];
}

/** A damaged version is not readable as it was written, and every reader must notice the damage. */
function checkVersions(
  { task, entries, current, hashes }: FinalTask,
  damaged: ReadonlySet<string>,
): Violation[] {
  const found: Violation[] = [];
  const report = (text: string, details: Record<string, unknown>): void => {
    found.push({ kind: "audit_incomplete", task, text, details });
  };
  const removed = removedIn(entries);
  const made = new Map<string, Entry>();
  for (const entry of entries) {
    if (entry.checkpoint_id === null || entry.version === null || !WRITES_VERSION.has(entry.op)) continue;
    const name = versionName(entry.checkpoint_id, entry.version);
    if (made.has(name)) report("two audit entries made the same version", { version: name });
    made.set(name, entry);
    const before = made.get(versionName(entry.checkpoint_id, entry.version - 1));
    if (entry.version > 1 && (before?.new_hash ?? null) !== entry.old_hash) {
      report("an entry does not begin at the previous version", { version: name, seq: entry.seq });
    }
    // The check of the removals covers these versions.
    if (removed.has(entry.checkpoint_id)) continue;
    const isLost = hashes.get(name) !== entry.new_hash;
    if (isLost !== damaged.has(name)) {
      found.push({
        kind: "lost",
        task,
        text: isLost
          ? "the version of an audit entry is missing or different"
          : "the damage of a version is not noticed",
        details: {
          version: name,
          seq: entry.seq,
          entry_hash: entry.new_hash,
          stored_hash: hashes.get(name) ?? null,
        },
      });
    }
  }
  for (const { checkpoint_id, version } of current) {
    for (let n = 1; n <= version; n += 1) {
      const name = versionName(checkpoint_id, n);
      if (!made.has(name)) report("a stored version has no audit entry", { version: name });
    }
  }
  return found;
}

function checkStates({ task, head, entries, current }: FinalTask, damaged: ReadonlySet<string>): Violation[] {
  const found: Violation[] = [];
  let state: string | null = null;
  let fence = 0;
  let owner: string | null = null;
  const created: string[] = [];
  const handoffs = new Map<string, HandoffState>();
  for (const entry of entries) {
    const { seq, op, state_from, state_to } = entry;
    if (state_from !== state || !isStep(state_from, state_to)) {
      found.push({
        kind: "state_wrong",
        task,
        text: "an entry does not follow from the previous one",
        details: { seq, state, state_from, state_to },
      });
    }
    state = state_to;
    if (op === "create") created.push(entry.checkpoint_id!);
    if (givesOwnership(entry) || revokesOwnership(entry)) fence += 1;
    if (givesOwnership(entry) || revokesOwnership(entry) || op === "release") owner = entry.owner_to ?? null;
    found.push(...checkHandoffTransition(task, entry, handoffs));
  }
  const open = [...handoffs].filter(([, at]) => isOpenHandoff(at)).map(([id]) => id);
  const folded = {
    state,
    fence,
    owner,
    seq: created.length,
    latest_id: created.at(-1) ?? null,
    handoffs: open,
  };
  const stored = {
    state: head.state,
    fence: head.fence,
    owner: head.owner,
    seq: head.seq,
    latest_id: head.latest_id,
    handoffs: head.handoff_id ? [head.handoff_id] : [],
  };
  if (JSON.stringify(folded) !== JSON.stringify(stored)) {
    found.push({
      kind: "state_wrong",
      task,
      text: "the task's head differs from the fold of its audit entries",
      details: { folded, stored },
    });
  }
  const ids = current.map(({ checkpoint_id }) => checkpoint_id);
  const removed = removedIn(entries);
  const living = created.filter((id) => !damaged.has(id) && !removed.has(id));
  if (JSON.stringify(ids) !== JSON.stringify(living)) {
    found.push({
      kind: "state_wrong",
      task,
      text: "the task's checkpoints differ from those that were created and not removed",
      details: { created: created.length, listed: ids.length },
    });
  }
  return found;
}

/** Checks that a handoff moves from its current state, by a transition of the table. */
function checkHandoffTransition(
  task: string,
  entry: Entry,
  handoffs: Map<string, HandoffState>,
): Violation[] {
  const { seq, handoff_id: id, handoff_from = null, handoff_to } = entry;
  if (id === undefined || handoff_to === undefined) return [];
  const at = handoffs.get(id) ?? null;
  const allowed = at === null ? ["requested"] : Object.values(HANDOFF_TABLE[at]);
  handoffs.set(id, handoff_to as HandoffState);
  if (handoff_from === at && allowed.includes(handoff_to as HandoffState)) return [];
  return [
    {
      kind: "state_wrong",
      task,
      text: "a handoff does not continue from its state",
      details: { seq, handoff_id: id, at, handoff_from, handoff_to },
    },
  ];
}

function isStep(from: string | null, to: string): boolean {
  if (from === null) return to === "active";
  const isKnown = [from, to].every((state) => TASK_STATES.includes(state as TaskState));
  // An ended task is only opened again, by a checkpoint, or ended otherwise.
  return (
    isKnown && (from === to || !isEnded(from as TaskState) || to === "active" || isEnded(to as TaskState))
  );
}
