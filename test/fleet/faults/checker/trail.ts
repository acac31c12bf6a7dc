/**
 * The trail of each task against its state: the chain of hashes verifies, every version has exactly one entry and every entry its
 * version, each entry begins where the one before it ended, and all entries together give the task's head. The counters
 * that every transition adds to agree with the number of entries.
 */
import { createChainVerifier } from "../../../../shared/integrity/chain.ts";
import {
  HANDOFF_TABLE,
  type HandoffState,
  isOpenHandoff,
} from "../../../../shared/protocol/handoff-states.ts";
import { TASK_TABLE, type TaskState } from "../../../../shared/protocol/task.ts";
import {
  type Entry,
  type Evidence,
  isRemark,
  type TaskTruth,
  type Violation,
  versionName,
} from "./evidence.ts";
import { isDeposing, isTaking } from "./owners.ts";

export function checkTrails({ truth, damages }: Pick<Evidence, "truth" | "damages">): Violation[] {
  const damaged = new Set(damages.map(({ checkpoint_id }) => checkpoint_id));
  const found = [...truth.tasks.values()].flatMap((task) => [
    ...checkChain(task),
    ...checkVersions(task, damaged),
    ...checkStates(task, damaged),
  ]);
  const entries = [...truth.tasks.values()].reduce((sum, task) => sum + task.entries.length, 0);
  if (entries !== truth.bells) {
    found.push({
      kind: "audit_incomplete",
      task: null,
      text: "there are not as many audit entries as transitions",
      details: { entries, transitions: truth.bells },
    });
  }
  return found;
}

function checkChain({ task, head, records }: TaskTruth): Violation[] {
  const verifier = createChainVerifier();
  for (const record of records) verifier.add(record);
  const { ok, problems } = verifier.finish({ seq: head.audit_seq, hash: head.audit_hash });
  return ok
    ? []
    : [
        {
          kind: "chain_broken",
          task,
          text: "the audit chain does not verify",
          details: { problems: problems.slice(0, 5) },
        },
      ];
}

/** What was damaged on purpose is not there as it was written, and whoever looks must notice. */
function checkVersions(
  { task, entries, current, hashes }: TaskTruth,
  damaged: ReadonlySet<string>,
): Violation[] {
  const found: Violation[] = [];
  const say = (text: string, details: Record<string, unknown>): void => {
    found.push({ kind: "audit_incomplete", task, text, details });
  };
  const told = new Map<string, Entry>();
  for (const entry of entries) {
    if (entry.checkpoint_id === null || entry.version === null || isRemark(entry)) continue;
    const name = versionName(entry.checkpoint_id, entry.version);
    if (told.has(name)) say("two audit entries made the same version", { version: name });
    told.set(name, entry);
    const before = told.get(versionName(entry.checkpoint_id, entry.version - 1));
    if (entry.version > 1 && (before?.new_hash ?? null) !== entry.old_hash) {
      say("an entry does not begin at the version before it", { version: name, seq: entry.seq });
    }
    const isLost = hashes.get(name) !== entry.new_hash;
    if (isLost !== damaged.has(entry.checkpoint_id)) {
      found.push({
        kind: "lost",
        task,
        text: isLost
          ? "an audit entry's version is not stored, or is another"
          : "a version whose bytes were damaged is read as if they were not",
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
      if (!told.has(name)) say("a stored version has no audit entry", { version: name });
    }
  }
  return found;
}

function checkStates({ task, head, entries, current }: TaskTruth, damaged: ReadonlySet<string>): Violation[] {
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
        text: "an entry does not follow from the one before it",
        details: { seq, state, state_from, state_to },
      });
    }
    state = state_to;
    if (op === "create") created.push(entry.checkpoint_id!);
    if (isTaking(entry) || isDeposing(entry)) fence += 1;
    if (isTaking(entry) || isDeposing(entry) || op === "release") owner = entry.owner_to ?? null;
    found.push(...checkMove(task, entry, handoffs));
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
      text: "the task's head is not what its audit entries come to",
      details: { folded, stored },
    });
  }
  const ids = current.map(({ checkpoint_id }) => checkpoint_id);
  if (JSON.stringify(ids) !== JSON.stringify(created.filter((id) => !damaged.has(id)))) {
    found.push({
      kind: "state_wrong",
      task,
      text: "the task's checkpoints are not those that its entries created",
      details: { created: created.length, listed: ids.length },
    });
  }
  return found;
}

/** A handoff goes from where it was, by a way that the table has. */
function checkMove(task: string, entry: Entry, handoffs: Map<string, HandoffState>): Violation[] {
  const { seq, handoff_id: id, handoff_from = null, handoff_to } = entry;
  if (id === undefined || handoff_to === undefined) return [];
  const at = handoffs.get(id) ?? null;
  const ways = at === null ? ["requested"] : Object.values(HANDOFF_TABLE[at]);
  handoffs.set(id, handoff_to as HandoffState);
  if (handoff_from === at && ways.includes(handoff_to as HandoffState)) return [];
  return [
    {
      kind: "state_wrong",
      task,
      text: "a handoff does not go on from where it was",
      details: { seq, handoff_id: id, at, handoff_from, handoff_to },
    },
  ];
}

function isStep(from: string | null, to: string): boolean {
  if (from === null) return to === "active";
  return from === to || Object.values(TASK_TABLE[from as TaskState] ?? {}).includes(to as TaskState);
}
