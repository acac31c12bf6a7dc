// Takes the steps of the written order until a prompt fits its budget.

import type { Draft, Rendering } from "./draft.ts";
import { SECTIONS, type SectionName } from "./sections.ts";
import { type Level, SHRINKING, WHOLE } from "./shrink.ts";

export type Levels = ReadonlyMap<SectionName, Level>;
export type Renderings = ReadonlyMap<SectionName, Rendering>;

export interface Fitted {
  readonly renderings: Renderings;
  readonly cost: number;
}

/** `around`: what everything that is not a section costs, which depends on what the sections leave out. */
export function fitInto(draft: Draft, budget: number, around: (renderings: Renderings) => number): Fitted {
  const levels = new Map<SectionName, Level>(SECTIONS.map((section) => [section, WHOLE]));
  let fitted = measured(draft, levels, around);
  for (const { section, ...level } of SHRINKING) {
    if (fitted.cost <= budget) return fitted;
    if (draft.render(section, level) === fitted.renderings.get(section)) continue;
    const before = levels.get(section)!;
    levels.set(section, level);
    const shrunk = measured(draft, levels, around);
    // To say that a short text was left out may cost more than the text.
    if (shrunk.cost >= fitted.cost && fitted.cost < Number.POSITIVE_INFINITY) {
      levels.set(section, before);
      continue;
    }
    fitted = shrunk;
    if (fitted.cost > budget) continue;
    const most = Math.min(before.items, draft.count(section));
    const chars = level.chars === 0 ? before.chars : level.chars;
    return regrown(fitted, { from: level.items, to: most, budget }, (items) =>
      measured(draft, levels.set(section, { items, chars }), around),
    );
  }
  return fitted;
}

/** The step that made it fit, taken back item by item as far as there is room. */
function regrown(
  least: Fitted,
  { from, to, budget }: { from: number; to: number; budget: number },
  grow: (items: number) => Fitted,
): Fitted {
  let best = least;
  let [low, high] = [from, to];
  while (low < high) {
    const items = Math.ceil((low + high) / 2);
    const grown = grow(items);
    if (grown.cost <= budget) [best, low] = [grown, items];
    else high = items - 1;
  }
  return best;
}

function measured(draft: Draft, levels: Levels, around: (renderings: Renderings) => number): Fitted {
  const renderings = new Map(
    SECTIONS.map((section) => [section, draft.render(section, levels.get(section)!)]),
  );
  const sections = [...renderings.values()].reduce((sum, { cost }) => sum + cost, 0);
  return {
    renderings,
    cost: sections === Number.POSITIVE_INFINITY ? sections : sections + around(renderings),
  };
}
