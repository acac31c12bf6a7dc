// The quoted sections of a prompt at any size: their chunks of text, the cost of these, and their omissions. Everything is computed
// lazily and once, because most of a long checkpoint never gets into a prompt.

import { clean, quoted } from "./quotation.ts";
import { KEPT, type SectionSize, WHOLE } from "./reduction.ts";
import type { Contents, SectionName } from "./sections.ts";

/** The cost of a chunk. A chunk consists of whole lines, so the costs of chunks add up to the cost of the text. */
export type Cost = (chunk: string) => number;

export interface Rendering {
  readonly chunks: readonly string[];
  readonly cost: number;
  /** The number of omitted items. */
  readonly missing: number;
  /** The number of truncated items. */
  readonly shortened: number;
  readonly secrets: number;
}

interface ItemText {
  readonly lines: readonly string[];
  readonly isCut: boolean;
  readonly secrets: number;
}

/** The sections that are paragraphs; the others are lists. */
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
  /** The unquoted lines above a section's texts: its heading and remarks. */
  readonly #headers: ReadonlyMap<SectionName, readonly string[]>;
  readonly #cost: Cost;
  /** The number of raw characters that could fit; longer texts are not processed. */
  readonly #affordable: number;
  readonly #items = new Map<string, ItemText>();
  readonly #renderings = new Map<string, Rendering>();
  readonly #longestTexts = new Map<SectionName, number>();

  constructor(
    contents: Contents,
    headers: ReadonlyMap<SectionName, readonly string[]>,
    { cost, affordable }: { cost: Cost; affordable: number },
  ) {
    this.#contents = contents;
    this.#headers = headers;
    this.#cost = cost;
    this.#affordable = affordable;
  }

  count(section: SectionName): number {
    return this.#contents[section].length;
  }

  /** Returns the same object for all sizes with the same result. */
  render(section: SectionName, { items, chars: limit }: SectionSize): Rendering {
    const raw = this.#contents[section];
    const kept = Math.min(items, raw.length);
    const chars = kept === 0 || limit >= this.#longest(section) ? WHOLE.chars : limit;
    const key = `${section}/${kept}/${chars}`;
    const cached = this.#renderings.get(key);
    if (cached !== undefined) return cached;
    const rendering = this.#rendered(section, kept, chars);
    this.#renderings.set(key, rendering);
    return rendering;
  }

  #rendered(section: SectionName, kept: number, chars: number): Rendering {
    const raw = this.#contents[section];
    const header = this.#headers.get(section);
    if (header === undefined) return { ...NOTHING, missing: raw.length };
    // Remarks beside the heading, such as the state of the workspace, are printed even if all texts are left out.
    if (kept === 0 && header.length < 2) return { ...NOTHING, missing: raw.length };
    const from = KEPT[section] === "last" ? raw.length - kept : 0;
    return this.#isAffordable(raw, from, kept, chars)
      ? this.#written(section, header, { from, kept, chars })
      : { ...NOTHING, cost: Number.POSITIVE_INFINITY };
  }

  #longest(section: SectionName): number {
    const cached = this.#longestTexts.get(section);
    if (cached !== undefined) return cached;
    const longest = this.#contents[section].reduce((longest, { length }) => Math.max(longest, length), 0);
    this.#longestTexts.set(section, longest);
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
    header: readonly string[],
    { from, kept, chars }: { from: number; kept: number; chars: number },
  ): Rendering {
    const items = Array.from({ length: kept }, (_, at) => this.#item(section, from + at, chars));
    const lines = [...header, ...items.flatMap((item) => item.lines)];
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
    const cached = this.#items.get(key);
    if (cached !== undefined) return cached;
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
