// The words of any text are those of the definition: the index of an earlier release was made by it, and a search compares its words with the checkpoint's.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { wordsIn, wordsOf } from "../../../../shared/records/search/tokenizer.ts";

const { index_word_chars_min: MIN, index_word_chars_max: MAX } = LIMITS;

/** The definition of a word, over a whole text at once. */
function defined(text: string): string[] {
  const found =
    text
      .normalize("NFKC")
      .toLowerCase()
      .match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu) ?? [];
  return [...new Set(found.filter(({ length }) => length >= MIN && length <= MAX))];
}

function checkpointOf(texts: readonly string[]): Checkpoint {
  return {
    metadata: { trigger: {} },
    execution_state: { pending_items: [], blocked_items: [], completed_items: [] },
    context_summary: { key_decisions: [], assumptions: texts, constraints: [] },
    recovery: {},
  } as unknown as Checkpoint;
}

/** Letters and marks whose form depends on what stands beside them, and ASCII around them. */
const PARTS = [
  ..."aAzZ019 \n\t.':-_<=/",
  "word",
  "Retry",
  "ﬁ",
  "ß",
  "İ",
  "Σ",
  "ΑΣ",
  "\u0301",
  "\u0308",
  "\u0338",
  "\u200d",
  "\u00ad",
  "한",
  "\u1112\u1161",
  "日本",
  "नि",
  "１",
  "K",
  "ǅ",
  "\ud83d",
  "\ude00",
  "😀",
  "𝒜",
  "…",
  "—",
];
const mixed = fc.array(fc.constantFrom(...PARTS), { maxLength: 60 }).map((parts) => parts.join(""));
const mostlyAscii = fc
  .array(fc.oneof({ weight: 30, arbitrary: fc.constantFrom("fleet ", "a", "B2", ", ") }, mixed), {
    maxLength: 40,
  })
  .map((parts) => parts.join(""));
const text = fc.oneof(mixed, mostlyAscii, fc.string({ unit: "binary", maxLength: 80 }));

describe("the words of a text", () => {
  test("are those of the definition, for any text", () => {
    fc.assert(
      fc.property(text, (one) => {
        expect(wordsIn(one)).toEqual(defined(one));
      }),
      { numRuns: 4_000 },
    );
  });

  test("of a checkpoint are the first ones of all its texts", () => {
    fc.assert(
      fc.property(fc.array(text, { maxLength: 8 }), (texts) => {
        const words = defined(texts.join("\n")).slice(0, LIMITS.index_words_max);
        expect(wordsOf(checkpointOf(texts))).toEqual(words);
      }),
      { numRuns: 1_000 },
    );
  });

  test("are found in texts of any length, up to the limit", () => {
    const long = `${"ö".repeat(MAX)} ${"x".repeat(LIMITS.index_text_chars_max - MAX - 6)} end`;
    expect(wordsIn(`${long} late`)).toEqual(["ö".repeat(MAX), "end"]);
  });

  test("are the same when more words were met than a process keeps", () => {
    const all = Array.from({ length: 60_000 }, (_, n) => `w${(n * 7_919) % 60_000}`);
    for (let from = 0; from < all.length; from += 150) {
      const some = all.slice(from, from + 150);
      expect(wordsOf(checkpointOf([some.join(" "), "steady", some.join("/").toUpperCase()]))).toEqual([
        ...some,
        "steady",
      ]);
    }
    // One text with more words than have room at that time.
    expect(wordsIn(`${all.slice(0, 7_000).join(" ")} W0`)).toEqual(all.slice(0, 7_000));
  });

  test("with one hash are different words", () => {
    const words = collisions(40);
    expect(wordsIn(words.join(" "))).toEqual(words);
    expect(wordsOf(checkpointOf([words.toReversed().join(" "), ...words]))).toEqual(words.toReversed());
  });
});

/** Words that the process keeps at one place: texts may be made so. */
function collisions(count: number): string[] {
  const places = new Map<number, string[]>();
  for (let n = 0; ; n += 1) {
    const word = `k${n.toString(36)}`;
    let hash = 0;
    for (const char of word) hash = Math.imul(hash ^ char.charCodeAt(0), 0x0100_0193);
    const place = (hash ^ (hash >>> 15)) & 0x7fff;
    const some = places.get(place) ?? [];
    some.push(word);
    places.set(place, some);
    if (some.length === count) return some;
  }
}
