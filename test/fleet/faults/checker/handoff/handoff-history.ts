/** All that is left of one handoff: its record, and its entries among those of its task. */

import type { Handoff } from "../../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../../shared/protocol/handoff-states.ts";
import { type Command, type Entry, ownEntries, type Truth, type Violation } from "../evidence.ts";

export interface HandoffStory {
  readonly id: string;
  readonly task: string;
  /** Its own entries, in order. */
  readonly moves: readonly Entry[];
  /** All of its task. */
  readonly entries: readonly Entry[];
  readonly record: Handoff | undefined;
}

export function storiesOf({ tasks, handoffs }: Truth): Map<string, HandoffStory> {
  const stories = new Map<string, HandoffStory>();
  for (const { task, entries } of tasks.values()) {
    const moves = entries.filter((entry) => entry.handoff_id !== undefined && entry.handoff_to !== undefined);
    for (const [id, own] of Map.groupBy(moves, ({ handoff_id }) => handoff_id!)) {
      stories.set(id, { id, task, moves: own, entries, record: handoffs.get(id) });
    }
  }
  return stories;
}

export const stateOf = ({ moves }: Pick<HandoffStory, "moves">): HandoffState =>
  moves.at(-1)!.handoff_to as HandoffState;

export const timeOf = ({ at }: Pick<Entry, "at">): number => Date.parse(at);

type Say = (kind: Violation["kind"], text: string, details?: Record<string, unknown>) => void;

/** Adds violations of one handoff to those found. */
export function sayingOf(found: Violation[], { id, task }: Pick<HandoffStory, "id" | "task">): Say {
  return (kind, text, details = {}) => {
    found.push({ kind, task, text, details: { handoff_id: id, ...details } });
  };
}

/** The entry of the same command right before a move that a command makes besides its own transition. */
export function causeOf({ entries }: HandoffStory, move: Entry): Entry | undefined {
  const own = ownEntries(entries.slice(0, move.seq)).at(-1);
  return own !== undefined && own.command_id === move.command_id ? own : undefined;
}

/** The checkpoints that whoever accepted wrote under the fence that it got, until the handoff's end. */
export function firstWrites(
  { entries }: HandoffStory,
  taken: Entry,
  end: Entry,
  commands: ReadonlyMap<string, Command>,
): Entry[] {
  return entries.filter(({ seq, op, command_id, fence }) => {
    const isBetween = seq > taken.seq && seq < end.seq;
    const writer = commands.get(command_id ?? "")?.attempts[0]?.agent;
    return isBetween && op === "create" && fence === taken.fence && writer === taken.owner_to;
  });
}
