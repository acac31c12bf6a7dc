/**
 * The check of the linearizability of each task. The order of its writes is the order of their audit entries, which the check of the audit
 * trail has verified. So the history is linearizable if and only if
 *   - no write is after a write that began only when the first one was known to be committed, and
 *   - every read has a position between two entries at which the task has the returned value. The position is after every entry that was
 *     known to be committed before the read began, or that an earlier read returned, and before every entry that began after its end.
 * The value of a read is correct for an interval of positions, from the entry of its version to the next change or the removal. The check
 * processes the reads in the order of their beginnings and chooses the first possible position. Reads limit later reads from below only, so
 * no other choice can be better.
 */
import type { CallAttempt } from "../agents/history.ts";
import {
  type Command,
  commandsOf,
  type Entry,
  type Evidence,
  type FinalTask,
  isAnnotation,
  type Violation,
  WRITES_VERSION,
} from "./evidence.ts";

const NOTHING: FinalTask["entries"] = [];

export function checkOrder(
  evidence: Evidence,
  commands: ReadonlyMap<string, Command> = commandsOf(evidence.attempts),
): Violation[] {
  const reads = Map.groupBy(
    evidence.attempts.filter(({ outcome, seen }) => outcome === "read" && seen !== undefined),
    ({ task }) => task,
  );
  const tasks = new Set([...evidence.finalState.tasks.keys(), ...reads.keys()]);
  return [...tasks].flatMap((task) => {
    const finalTask = evidence.finalState.tasks.get(task);
    const timed = timeline(finalTask?.entries ?? NOTHING, commands);
    return [...checkWrites(task, timed), ...checkReads(task, finalTask, timed, reads.get(task) ?? [])];
  });
}

interface Timed {
  readonly entry: Entry;
  readonly begin: number;
  readonly knownAt: number;
}

/** Entries without a command may have been made at any time. */
function timeline(entries: readonly Entry[], commands: ReadonlyMap<string, Command>): Timed[] {
  return entries.map((entry) => {
    const command =
      entry.command_id === null || isAnnotation(entry) ? undefined : commands.get(entry.command_id);
    return {
      entry,
      begin: command?.begin ?? Number.NEGATIVE_INFINITY,
      knownAt: command?.knownAt ?? Number.POSITIVE_INFINITY,
    };
  });
}

function checkWrites(task: string, timed: readonly Timed[]): Violation[] {
  const found: Violation[] = [];
  // The latest beginning among the earlier entries. A write that was known before that time has the wrong position.
  let latest: Timed | undefined;
  for (const one of timed) {
    if (latest !== undefined && one.knownAt < latest.begin) {
      found.push({
        kind: "not_linearizable",
        task,
        text: "a write is after a write that began later than its answer",
        details: { seq: one.entry.seq, after: latest.entry.seq, late_us: latest.begin - one.knownAt },
      });
    }
    if (latest === undefined || one.begin > latest.begin) latest = one;
  }
  return found;
}

function checkReads(
  task: string,
  finalTask: FinalTask | undefined,
  timed: readonly Timed[],
  reads: readonly CallAttempt[],
): Violation[] {
  const found: Violation[] = [];
  const known = [...timed].sort((a, b) => a.knownAt - b.knownAt);
  const beginnings = runningBeginnings(timed);
  const findPosition = createPositionFinder(timed.map(({ entry }) => entry));
  let nextKnown = 0;
  let floor = 0;
  const pending: { end: number; position: number }[] = [];
  for (const read of [...reads].sort((a, b) => a.begin - b.begin)) {
    while (nextKnown < known.length && known[nextKnown]!.knownAt < read.begin) {
      floor = Math.max(floor, known[nextKnown]!.entry.seq);
      nextKnown += 1;
    }
    for (let i = pending.length - 1; i >= 0; i -= 1) {
      if (pending[i]!.end >= read.begin) continue;
      floor = Math.max(floor, pending[i]!.position);
      pending.splice(i, 1);
    }
    // At position p, the first p entries are committed.
    const ceiling = lastPositionBefore(beginnings, read.end);
    const position = findPosition(read, finalTask, floor, ceiling);
    if (position === null) {
      found.push({
        kind: "not_linearizable",
        task,
        text: "a read returned a value that the task did not have at any time of the read",
        details: {
          op: read.op,
          agent: read.agent,
          call: read.call,
          from: floor,
          to: ceiling,
          seen: summary(read),
        },
      });
      continue;
    }
    pending.push({ end: read.end, position });
  }
  return found;
}

/** The latest beginning among each entry and its predecessors: an ascending list for a binary search. */
function runningBeginnings(timed: readonly Timed[]): number[] {
  let latest = Number.NEGATIVE_INFINITY;
  return timed.map(({ begin }) => {
    latest = Math.max(latest, begin);
    return latest;
  });
}

/** The number of entries that can be committed by `end`: those before the first one that began later. */
function lastPositionBefore(beginnings: readonly number[], end: number): number {
  let low = 0;
  let high = beginnings.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (beginnings[middle]! > end) high = middle;
    else low = middle + 1;
  }
  return low;
}

function summary({ seen }: CallAttempt): unknown {
  return seen?.head !== undefined ? seen.head : seen?.versions?.slice(0, 3);
}

type PositionFinder = (
  read: CallAttempt,
  finalTask: FinalTask | undefined,
  floor: number,
  ceiling: number,
) => number | null;

/** Finds the first position from `floor` to `ceiling` at which the task has the returned value; null when there is none. */
function createPositionFinder(entries: readonly Entry[]): PositionFinder {
  const creates = entries.filter(({ op }) => op === "create");
  const changes = Map.groupBy(
    entries.filter(({ op }) => WRITES_VERSION.has(op) || op === "remove"),
    ({ checkpoint_id }) => checkpoint_id!,
  );
  /** The position of the removal; infinite for a checkpoint that exists. */
  const removedAt = (id: string): number =>
    changes.get(id)?.find(({ op }) => op === "remove")?.seq ?? Number.POSITIVE_INFINITY;
  /** The position at which this version is replaced; infinite for the current one. */
  const replacedAt = (id: string, entry: number): number =>
    changes.get(id)?.find(({ seq }) => seq > entry)?.seq ?? Number.POSITIVE_INFINITY;
  const nextCreate = (entry: number): number =>
    creates.find(({ seq }) => seq > entry)?.seq ?? Number.POSITIVE_INFINITY;
  const isAt = (id: string, version: number, entry: number, hash: string): boolean => {
    const made = entries[entry - 1];
    return made?.checkpoint_id === id && made.version === version && made.new_hash === hash;
  };

  return (read, finalTask, floor, ceiling) => {
    const fits = (from: number, until: number): number | null => {
      const position = Math.max(from, floor);
      return position < until && position <= ceiling ? position : null;
    };
    const { head, versions, removed = [] } = read.seen!;
    if (head !== undefined) {
      if (head === null) return fits(0, 1);
      const hashAt = finalTask?.records[head.audit_seq]?.entry;
      const isOwn =
        head.audit_seq === finalTask?.head.audit_seq
          ? head.audit_hash === finalTask.head.audit_hash
          : hashAt !== undefined && (JSON.parse(hashAt) as { prev: string }).prev === head.audit_hash;
      return isOwn ? fits(head.audit_seq, head.audit_seq + 1) : null;
    }
    if (versions!.length + removed.length === 0) {
      const { checkpoint_id: id } = read;
      return fits(0, id === undefined ? nextCreate(0) : replacedAt(id, 0));
    }
    if (
      !versions!.every(({ checkpoint_id, version, entry, hash }) => isAt(checkpoint_id, version, entry, hash))
    )
      return null;
    const from = Math.max(...versions!.map(({ entry }) => entry), ...removed.map(removedAt));
    const replaced = Math.min(
      ...versions!.map(({ checkpoint_id, entry }) => replacedAt(checkpoint_id, entry)),
    );
    if (read.op === "get") return fits(from, replaced);
    // `latest` and `history` begin at the newest checkpoint, and a page has no gaps.
    const newest = creates.findLastIndex(({ seq }) => seq <= from);
    const size = versions!.length + removed.length;
    const page = creates
      .slice(Math.max(0, newest + 1 - size), newest + 1)
      .map(({ checkpoint_id }) => checkpoint_id!)
      .reverse();
    const isComplete = read.op === "latest" || size === Math.min(read.limit ?? size, newest + 1);
    // A page lists the checkpoints and the removed ones separately, both in the order of the task.
    const isRemoved = (id: string): boolean => removedAt(id) <= from;
    const isPage =
      page.filter((id) => !isRemoved(id)).join() ===
        versions!.map(({ checkpoint_id }) => checkpoint_id).join() &&
      page.filter(isRemoved).join() === removed.join();
    if (!isComplete || !isPage) return null;
    return fits(from, Math.min(replaced, nextCreate(from)));
  };
}
