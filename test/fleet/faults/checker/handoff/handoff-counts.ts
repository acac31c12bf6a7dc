/** The counts of the handoffs of a round. */
import { type HandoffState, isOpenHandoff } from "../../../../../shared/protocol/handoff-states.ts";
import type { Command } from "../evidence.ts";
import { type HandoffHistory, stateOf, timeOf } from "./handoff-history.ts";

export interface HandoffCounts {
  readonly requested: number;
  readonly accepted: number;
  readonly offered_again: number;
  /** Acceptances that were refused because of another acceptance or the deadline. */
  readonly acceptances_refused: number;
  readonly ends: Readonly<Record<string, number>>;
  /** The handoffs that were open at the kills, by their states. */
  readonly open_at_kills: Readonly<Record<string, number>>;
}

export function countHandoffs(
  histories: ReadonlyMap<string, HandoffHistory>,
  commands: ReadonlyMap<string, Command>,
  kills: readonly number[],
): HandoffCounts {
  const all = [...histories.values()];
  const ends: Record<string, number> = {};
  const openAtKills: Record<string, number> = {};
  const count = (counts: Record<string, number>, name: string): void => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  for (const history of all) {
    const { reason } = history.moves.at(-1)!;
    count(ends, reason === undefined ? stateOf(history) : `${stateOf(history)} ${reason}`);
    for (const kill of kills) {
      const state = stateAt(history, kill);
      if (state !== undefined && isOpenHandoff(state)) count(openAtKills, state);
    }
  }
  const acceptances = [...commands.values()].filter(({ attempts }) => attempts[0]!.op === "acknowledge");
  return {
    requested: all.length,
    accepted: all.filter(({ moves }) => moves.some(({ op }) => op === "acknowledge")).length,
    offered_again: all.filter(({ moves }) => moves.filter(({ op }) => op === "offer").length > 1).length,
    acceptances_refused: acceptances.filter(({ committed }) => committed === undefined).length,
    ends,
    open_at_kills: openAtKills,
  };
}

function stateAt({ moves }: HandoffHistory, atMs: number): HandoffState | undefined {
  return moves.findLast((move) => timeOf(move) <= atMs)?.handoff_to as HandoffState | undefined;
}
