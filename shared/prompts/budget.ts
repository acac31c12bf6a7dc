// Applies the steps of reduction.ts until a prompt fits its budget.

import { REDUCTION, type SectionSize, WHOLE } from "./reduction.ts";
import type { Rendering, SectionRenderer } from "./section-renderer.ts";
import { SECTIONS, type SectionName } from "./sections.ts";

export type SectionSizes = ReadonlyMap<SectionName, SectionSize>;
export type Renderings = ReadonlyMap<SectionName, Rendering>;

export interface BudgetFit {
  readonly renderings: Renderings;
  readonly cost: number;
}

/** `around` is the cost of the text outside the sections, which depends on their omissions. */
export function fitToBudget(
  renderer: SectionRenderer,
  budget: number,
  around: (renderings: Renderings) => number,
): BudgetFit {
  const sizes = new Map<SectionName, SectionSize>(SECTIONS.map((section) => [section, WHOLE]));
  let fit = measured(renderer, sizes, around);
  for (const { section, ...size } of REDUCTION) {
    if (fit.cost <= budget) return fit;
    if (renderer.render(section, size) === fit.renderings.get(section)) continue;
    const before = sizes.get(section)!;
    sizes.set(section, size);
    const shrunk = measured(renderer, sizes, around);
    // The note about an omitted short text may cost more than the text.
    if (shrunk.cost >= fit.cost && fit.cost < Number.POSITIVE_INFINITY) {
      sizes.set(section, before);
      continue;
    }
    fit = shrunk;
    if (fit.cost > budget) continue;
    const most = Math.min(before.items, renderer.count(section));
    const chars = size.chars === 0 ? before.chars : size.chars;
    return regrown(fit, { from: size.items, to: most, budget }, (items) =>
      measured(renderer, sizes.set(section, { items, chars }), around),
    );
  }
  return fit;
}

/** Reverts the last step item by item, as far as the budget allows. */
function regrown(
  least: BudgetFit,
  { from, to, budget }: { from: number; to: number; budget: number },
  grow: (items: number) => BudgetFit,
): BudgetFit {
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

function measured(
  renderer: SectionRenderer,
  sizes: SectionSizes,
  around: (renderings: Renderings) => number,
): BudgetFit {
  const renderings = new Map(
    SECTIONS.map((section) => [section, renderer.render(section, sizes.get(section)!)]),
  );
  const sections = [...renderings.values()].reduce((sum, { cost }) => sum + cost, 0);
  return {
    renderings,
    cost: sections === Number.POSITIVE_INFINITY ? sections : sections + around(renderings),
  };
}
