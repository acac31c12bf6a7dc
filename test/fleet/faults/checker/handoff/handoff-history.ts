/** The history of one handoff: its record, and its entries among those of its task. */

import type { Handoff } from "../../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../../shared/protocol/handoff-states.ts";
import { type Command, commandEntries, type Entry, type FinalState, type Violation } from "../evidence.ts";

export interface HandoffHistory {
  readonly id: string;
  readonly task: string;
  /** The entries of the handoff, in order. */
  readonly moves: readonly Entry[];
  /** All entries of its task. */
  readonly entries: readonly Entry[];
  readonly record: Handoff | undefined;
}

export function handoffHistories({ tasks, handoffs }: FinalState): Map<string, HandoffHistory> {
  const histories = new Map<string, HandoffHistory>();
  for (const { task, entries } of tasks.values()) {
    const moves = entries.filter((entry) => entry.handoff_id !== undefined && entry.handoff_to !== undefined);
    for (const [id, own] of Map.groupBy(moves, ({ handoff_id }) => handoff_id!)) {
      histories.set(id, { id, task, moves: own, entries, record: handoffs.get(id) });
    }
  }
  return histories;
}

export const stateOf = ({ moves }: Pick<HandoffHistory, "moves">): HandoffState =>
  moves.at(-1)!.handoff_to as HandoffState;

export const timeOf = ({ at }: Pick<Entry, "at">): number => Date.parse(at);

type Report = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** Returns a function that adds violations of one handoff to `found`. */
export function handoffReporter(
  found: Violation[],
  { id, task }: Pick<HandoffHistory, "id" | "task">,
): Report {
  return (kind, text, details = {}) => {
    found.push({ kind, task, text, details: { handoff_id: id, ...details } });
  };
}

/** The own transition of the command that made `move` as an additional transition. */
export function causeOf({ entries }: HandoffHistory, move: Entry): Entry | undefined {
  const own = commandEntries(entries.slice(0, move.seq)).at(-1);
  return own !== undefined && own.command_id === move.command_id ? own : undefined;
}

/**
 * The checkpoints of the accepting agent as the owner, before the end of the handoff. An agent that has released the task may write again without
 * a fence, as any agent of a task without an owner: the fence of the task stays.
 */
export function firstWrites(
  { entries }: HandoffHistory,
  acceptance: Entry,
  end: Entry,
  commands: ReadonlyMap<string, Command>,
): Entry[] {
  const later = entries.filter(({ seq }) => seq > acceptance.seq && seq < end.seq);
  const release = later.findIndex(({ op }) => op === "release");
  return later.slice(0, release === -1 ? later.length : release).filter(({ op, command_id, fence }) => {
    const writer = commands.get(command_id ?? "")?.attempts[0]?.agent;
    return op === "create" && fence === acceptance.fence && writer === acceptance.owner_to;
  });
}
