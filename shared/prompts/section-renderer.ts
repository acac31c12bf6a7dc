// The quoted sections of a prompt at any level of shrinking: their chunks of text, what these cost, and what is missing from them.
// Everything is worked out once and only when it is asked for, because most of a long checkpoint never gets into a prompt.

import { clean, quoted } from "./quotation.ts";
import { KEPT, type SectionSize, WHOLE } from "./reduction.ts";
import type { Contents, SectionName } from "./sections.ts";

/** A chunk begins a line and ends one, so that the costs of chunks add up to the cost of the text. */
export type Cost = (chunk: string) => number;

export interface Rendering {
  readonly chunks: readonly string[];
  readonly cost: number;
  /** Items that are not there, and items that are there in part. */
  readonly missing: number;
  readonly shortened: number;
  readonly secrets: number;
}

interface ItemText {
  readonly lines: readonly string[];
  readonly isCut: boolean;
  readonly secrets: number;
}

/** What reads in one paragraph is one; the others are lists. */
const PARAGRAPHS: ReadonlySet<SectionName> = new Set([
  "next_action",
  "goal",
  "current_step",
  "note",
  "rollback",
]);

const NOTHING: Rendering = { chunks: [], cost: 0, missing: 0, shortened: 0, secrets: 0 };

export class SectionRenderer {
  readonly #contents: Contents;
  /** Lines of ours above a section's texts: its heading and what else must be said. */
  readonly #above: ReadonlyMap<SectionName, readonly string[]>;
  readonly #cost: Cost;
  /** Raw characters that could possibly fit; more are not even looked at. */
  readonly #affordable: number;
  readonly #items = new Map<string, ItemText>();
  readonly #renderings = new Map<string, Rendering>();
  readonly #longests = new Map<SectionName, number>();

  constructor(
    contents: Contents,
    above: ReadonlyMap<SectionName, readonly string[]>,
    { cost, affordable }: { cost: Cost; affordable: number },
  ) {
    this.#contents = contents;
    this.#above = above;
    this.#cost = cost;
    this.#affordable = affordable;
  }

  count(section: SectionName): number {
    return this.#contents[section].length;
  }

  /** The same object for levels at which the section is the same. */
  render(section: SectionName, { items, chars: most }: SectionSize): Rendering {
    const raw = this.#contents[section];
    const kept = Math.min(items, raw.length);
    const chars = kept === 0 || most >= this.#longest(section) ? WHOLE.chars : most;
    const key = `${section}/${kept}/${chars}`;
    const known = this.#renderings.get(key);
    if (known !== undefined) return known;
    const rendering = this.#rendered(section, kept, chars);
    this.#renderings.set(key, rendering);
    return rendering;
  }

  #rendered(section: SectionName, kept: number, chars: number): Rendering {
    const raw = this.#contents[section];
    const above = this.#above.get(section);
    if (above === undefined) return { ...NOTHING, missing: raw.length };
    // What is said beside the heading, as how the workspace stands, is said also when every text is left out.
    if (kept === 0 && above.length < 2) return { ...NOTHING, missing: raw.length };
    const from = KEPT[section] === "last" ? raw.length - kept : 0;
    return this.#isAffordable(raw, from, kept, chars)
      ? this.#written(section, above, { from, kept, chars })
      : { ...NOTHING, cost: Number.POSITIVE_INFINITY };
  }

  #longest(section: SectionName): number {
    const known = this.#longests.get(section);
    if (known !== undefined) return known;
    const longest = this.#contents[section].reduce((most, { length }) => Math.max(most, length), 0);
    this.#longests.set(section, longest);
    return longest;
  }

  #isAffordable(raw: readonly string[], from: number, kept: number, chars: number): boolean {
    let sum = 0;
    for (let at = from; at < from + kept && sum <= this.#affordable; at += 1) {
      sum += Math.min(raw[at]!.length, chars);
    }
    return sum <= this.#affordable;
  }

  #written(
    section: SectionName,
    above: readonly string[],
    { from, kept, chars }: { from: number; kept: number; chars: number },
  ): Rendering {
    const items = Array.from({ length: kept }, (_, at) => this.#item(section, from + at, chars));
    const lines = [...above, ...items.flatMap((item) => item.lines)];
    const chunks = lines.map((line, at) => `${line}${at === lines.length - 1 ? "\n\n" : "\n"}`);
    return {
      chunks,
      cost: chunks.reduce((sum, chunk) => sum + this.#cost(chunk), 0),
      missing: this.count(section) - kept,
      shortened: items.filter((item) => item.isCut).length,
      secrets: items.reduce((sum, item) => sum + item.secrets, 0),
    };
  }

  #item(section: SectionName, at: number, chars: number): ItemText {
    const raw = this.#contents[section][at]!;
    const limit = raw.length <= chars ? WHOLE.chars : chars;
    const key = `${section}/${at}/${limit}`;
    const known = this.#items.get(key);
    if (known !== undefined) return known;
    const text = clean(raw, limit);
    const isParagraph = PARAGRAPHS.has(section);
    const shown = isParagraph ? text : { ...text, text: text.text.replaceAll("\n", " ") };
    const item: ItemText = {
      lines: quoted(shown, isParagraph ? "" : "- "),
      isCut: text.cut > 0,
      secrets: text.secrets,
    };
    this.#items.set(key, item);
    return item;
  }
}
