/** How the handoffs of a round went, for people. */
import { type HandoffState, isOpenHandoff } from "../../../../../shared/protocol/handoff-states.ts";
import type { Command } from "../evidence.ts";
import { type HandoffStory, stateOf, timeOf } from "./handoff-history.ts";

/** How many handoffs came to which end, and what the agents met on the way. */
export interface HandoffCounts {
  readonly requested: number;
  readonly accepted: number;
  readonly offered_again: number;
  /** Agents that asked for an offered task and were told that another has it, or that it is too late. */
  readonly acceptances_refused: number;
  readonly ends: Readonly<Record<string, number>>;
  /** Open handoffs at the moments of the kills, by their states. */
  readonly met_by_kills: Readonly<Record<string, number>>;
}

export function countHandoffs(
  stories: ReadonlyMap<string, HandoffStory>,
  commands: ReadonlyMap<string, Command>,
  kills: readonly number[],
): HandoffCounts {
  const all = [...stories.values()];
  const ends: Record<string, number> = {};
  const met: Record<string, number> = {};
  const count = (counts: Record<string, number>, name: string): void => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  for (const story of all) {
    const { reason } = story.moves.at(-1)!;
    count(ends, reason === undefined ? stateOf(story) : `${stateOf(story)} ${reason}`);
    for (const kill of kills) {
      const state = stateAt(story, kill);
      if (state !== undefined && isOpenHandoff(state)) count(met, state);
    }
  }
  const asked = [...commands.values()].filter(({ attempts }) => attempts[0]!.op === "acknowledge");
  return {
    requested: all.length,
    accepted: all.filter(({ moves }) => moves.some(({ op }) => op === "acknowledge")).length,
    offered_again: all.filter(({ moves }) => moves.filter(({ op }) => op === "offer").length > 1).length,
    acceptances_refused: asked.filter(({ committed }) => committed === undefined).length,
    ends,
    met_by_kills: met,
  };
}

function stateAt({ moves }: HandoffStory, atMs: number): HandoffState | undefined {
  return moves.findLast((move) => timeOf(move) <= atMs)?.handoff_to as HandoffState | undefined;
}
