/**
 * Linearizability of each task. The order of its writes is given: it is the order of their audit entries, which the trail's check
 * has established. So the history is linearizable exactly when
 *   - no write stands behind a write that began only after the first one was known to be committed, and
 *   - every read can be given a place between two entries that shows what it returned, behind everything that was known to be
 *     committed, or was seen by a read that had ended, before it began, and before everything that began after it ended.
 * What a read returned is true for a run of places, from its version's entry until something changes it. Reads are taken in the order of
 * their beginnings and given the first place that fits; since reads bind later reads from below only, no other choice can be better.
 */
import type { Attempt } from "../agents/history.ts";
import {
  type Command,
  commandsOf,
  type Entry,
  type Evidence,
  isRemark,
  type TaskTruth,
  type Violation,
} from "./evidence.ts";

const NOTHING: TaskTruth["entries"] = [];

export function checkOrder(
  evidence: Evidence,
  commands: ReadonlyMap<string, Command> = commandsOf(evidence.attempts),
): Violation[] {
  const reads = Map.groupBy(
    evidence.attempts.filter(({ outcome, seen }) => outcome === "read" && seen !== undefined),
    ({ task }) => task,
  );
  const tasks = new Set([...evidence.truth.tasks.keys(), ...reads.keys()]);
  return [...tasks].flatMap((task) => {
    const truth = evidence.truth.tasks.get(task);
    const timed = timeline(truth?.entries ?? NOTHING, commands);
    return [...checkWrites(task, timed), ...checkReads(task, truth, timed, reads.get(task) ?? [])];
  });
}

interface Timed {
  readonly entry: Entry;
  readonly begin: number;
  readonly knownAt: number;
}

/** Entries that apply no command may have been made at any time. */
function timeline(entries: readonly Entry[], commands: ReadonlyMap<string, Command>): Timed[] {
  return entries.map((entry) => {
    const command = entry.command_id === null || isRemark(entry) ? undefined : commands.get(entry.command_id);
    return {
      entry,
      begin: command?.begin ?? Number.NEGATIVE_INFINITY,
      knownAt: command?.knownAt ?? Number.POSITIVE_INFINITY,
    };
  });
}

function checkWrites(task: string, timed: readonly Timed[]): Violation[] {
  const found: Violation[] = [];
  // The latest beginning among the entries before: whoever was known before that came too late.
  let latest: Timed | undefined;
  for (const one of timed) {
    if (latest !== undefined && one.knownAt < latest.begin) {
      found.push({
        kind: "not_linearizable",
        task,
        text: "a write stands behind one that began after it had been answered",
        details: { seq: one.entry.seq, behind: latest.entry.seq, late_us: latest.begin - one.knownAt },
      });
    }
    if (latest === undefined || one.begin > latest.begin) latest = one;
  }
  return found;
}

function checkReads(
  task: string,
  truth: TaskTruth | undefined,
  timed: readonly Timed[],
  reads: readonly Attempt[],
): Violation[] {
  const found: Violation[] = [];
  const known = [...timed].sort((a, b) => a.knownAt - b.knownAt);
  const beginnings = runningBeginnings(timed);
  const showing = createShowing(timed.map(({ entry }) => entry));
  let nextKnown = 0;
  let floor = 0;
  const pending: { end: number; place: number }[] = [];
  for (const read of [...reads].sort((a, b) => a.begin - b.begin)) {
    while (nextKnown < known.length && known[nextKnown]!.knownAt < read.begin) {
      floor = Math.max(floor, known[nextKnown]!.entry.seq);
      nextKnown += 1;
    }
    for (let i = pending.length - 1; i >= 0; i -= 1) {
      if (pending[i]!.end >= read.begin) continue;
      floor = Math.max(floor, pending[i]!.place);
      pending.splice(i, 1);
    }
    // Places are numbers of entries: at place p, the first p entries have happened.
    const ceiling = lastPlaceBefore(beginnings, read.end);
    const place = showing(read, truth, floor, ceiling);
    if (place === null) {
      found.push({
        kind: "not_linearizable",
        task,
        text: "a read returned what the task did not hold at any moment of the read",
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
    pending.push({ end: read.end, place });
  }
  return found;
}

/** For each entry, the latest beginning among it and those before it: grows, so it can be searched. */
function runningBeginnings(timed: readonly Timed[]): number[] {
  let latest = Number.NEGATIVE_INFINITY;
  return timed.map(({ begin }) => {
    latest = Math.max(latest, begin);
    return latest;
  });
}

/** How many entries can have happened by `end`: those before the first one that began after it. */
function lastPlaceBefore(beginnings: readonly number[], end: number): number {
  let low = 0;
  let high = beginnings.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (beginnings[middle]! > end) high = middle;
    else low = middle + 1;
  }
  return low;
}

function summary({ seen }: Attempt): unknown {
  return seen?.head !== undefined ? seen.head : seen?.versions?.slice(0, 3);
}

type Showing = (read: Attempt, truth: TaskTruth | undefined, floor: number, ceiling: number) => number | null;

const WRITES_VERSION: ReadonlySet<string> = new Set(["create", "update", "finalize", "link"]);

/** Finds the first place from `floor` to `ceiling` at which the task showed what the read returned; null when there is none. */
function createShowing(entries: readonly Entry[]): Showing {
  const creates = entries.filter(({ op }) => op === "create");
  const changes = Map.groupBy(
    entries.filter(({ op }) => WRITES_VERSION.has(op)),
    ({ checkpoint_id }) => checkpoint_id!,
  );
  /** The place at which this version is replaced; infinite for the current one. */
  const replacedAt = (id: string, entry: number): number =>
    changes.get(id)?.find(({ seq }) => seq > entry)?.seq ?? Number.POSITIVE_INFINITY;
  const nextCreate = (entry: number): number =>
    creates.find(({ seq }) => seq > entry)?.seq ?? Number.POSITIVE_INFINITY;
  const isAt = (id: string, version: number, entry: number, hash: string): boolean => {
    const made = entries[entry - 1];
    return made?.checkpoint_id === id && made.version === version && made.new_hash === hash;
  };

  return (read, truth, floor, ceiling) => {
    const fits = (from: number, until: number): number | null => {
      const place = Math.max(from, floor);
      return place < until && place <= ceiling ? place : null;
    };
    const { head, versions } = read.seen!;
    if (head !== undefined) {
      if (head === null) return fits(0, 1);
      const hashAt = truth?.records[head.audit_seq]?.entry;
      const isOwn =
        head.audit_seq === truth?.head.audit_seq
          ? head.audit_hash === truth.head.audit_hash
          : hashAt !== undefined && (JSON.parse(hashAt) as { prev: string }).prev === head.audit_hash;
      return isOwn ? fits(head.audit_seq, head.audit_seq + 1) : null;
    }
    const [first] = versions!;
    if (first === undefined) {
      const begins = read.checkpoint_id === undefined ? nextCreate(0) : replacedAt(read.checkpoint_id, 0);
      return fits(0, begins);
    }
    if (
      !versions!.every(({ checkpoint_id, version, entry, hash }) => isAt(checkpoint_id, version, entry, hash))
    )
      return null;
    const from = Math.max(...versions!.map(({ entry }) => entry));
    const replaced = Math.min(
      ...versions!.map(({ checkpoint_id, entry }) => replacedAt(checkpoint_id, entry)),
    );
    if (read.op === "get") return fits(from, replaced);
    // `latest` and `history` begin at the newest checkpoint, and a page is without gaps.
    const newest = creates.findLastIndex(({ seq }) => seq <= from);
    const ids = versions!.map(({ checkpoint_id }) => checkpoint_id);
    const page = creates
      .slice(Math.max(0, newest + 1 - ids.length), newest + 1)
      .map(({ checkpoint_id }) => checkpoint_id!)
      .reverse();
    const isWhole = read.op === "latest" || ids.length === Math.min(read.limit ?? ids.length, newest + 1);
    if (!isWhole || page.join() !== ids.join()) return null;
    return fits(from, Math.min(replaced, nextCreate(from)));
  };
}
