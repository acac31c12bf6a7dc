// The audit chain: every changed, dropped, added or moved entry is found, even when the later entries are
// rewritten to match.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import {
  CHAIN_START,
  type ChainLink,
  type ChainReport,
  createChainVerifier,
  entryHash,
} from "../../../shared/integrity/chain.ts";

interface Head {
  readonly seq: number;
  readonly hash: string;
}

/** Entries in the form of the audit trail; `from` continues another chain. */
function chained(ops: readonly string[], from: Head = { seq: 0, hash: CHAIN_START }) {
  const links: ChainLink[] = [];
  let { seq, hash } = from;
  for (const op of ops) {
    seq += 1;
    const entry = canonicalText({ v: 1, task: "task-1", seq, prev: hash, op });
    links.push({ seq, entry });
    hash = entryHash(entry);
  }
  return { links, head: { seq, hash } };
}

function verified(links: readonly ChainLink[], head: Head): ChainReport {
  const verifier = createChainVerifier();
  for (const link of links) verifier.add(link);
  return verifier.finish(head);
}

const { links, head } = chained(["create", "update", "link", "update", "finalize"]);
const at = (index: number): ChainLink => links[index] as ChainLink;
const edited = (link: ChainLink, from: string, to: string): ChainLink => ({
  seq: link.seq,
  entry: link.entry.replace(from, to),
});

test("an untouched chain is sound", () => {
  expect(verified(links, head)).toEqual({ ok: true, entries: 5, head: head.hash, problems: [] });
});

test("another verifier continues a chain from the reached link", () => {
  const first = createChainVerifier();
  for (const link of links.slice(0, 3)) first.add(link);
  const reached = first.reached();
  expect(reached).toEqual({ seq: 3, hash: entryHash(at(2).entry), problems: [] });
  const second = createChainVerifier(reached);
  for (const link of links.slice(3)) second.add(link);
  expect(second.finish(head).ok).toBe(true);
});

test("a later part of a chain is verified from the entry before it", () => {
  const verifier = createChainVerifier({ seq: 2, hash: entryHash(at(1).entry) });
  for (const link of links.slice(2)) verifier.add(link);
  expect(verifier.finish(head).ok).toBe(true);
  const other = createChainVerifier({ seq: 2, hash: entryHash(at(0).entry) });
  for (const link of links.slice(2)) other.add(link);
  expect(other.finish(head).problems).toEqual([{ seq: 3, problem: "broken_link" }]);
});

test("a chain without entries is sound only for a task without entries", () => {
  expect(verified([], { seq: 0, hash: CHAIN_START }).ok).toBe(true);
  expect(verified([], head).problems).toEqual([{ seq: 5, problem: "wrong_head" }]);
});

const rewritten = chained(["update", "update", "finalize"], { seq: 2, hash: entryHash(at(1).entry) });
const stranger = chained(["create"]).links[0] as ChainLink;

const tampered: [label: string, links: ChainLink[], problems: [seq: number, problem: string][]][] = [
  ["an entry edited", links.with(1, edited(at(1), "update", "create")), [[3, "broken_link"]]],
  ["the newest entry edited", links.with(4, edited(at(4), "finalize", "update")), [[5, "wrong_head"]]],
  [
    "blanks added to an entry",
    links.with(1, edited(at(1), ",", ", ")),
    [
      [2, "not_canonical"],
      [3, "broken_link"],
    ],
  ],
  [
    "an entry that is not JSON any more",
    links.with(1, { seq: 2, entry: "gone" }),
    [
      [2, "not_canonical"],
      [2, "broken_link"],
      [3, "broken_link"],
    ],
  ],
  [
    "an entry that is null",
    links.with(1, { seq: 2, entry: "null" }),
    [
      [2, "not_canonical"],
      [2, "broken_link"],
      [3, "broken_link"],
    ],
  ],
  [
    "an entry dropped",
    links.toSpliced(2, 1),
    [
      [4, "gap"],
      [4, "broken_link"],
    ],
  ],
  [
    "the first entry dropped",
    links.toSpliced(0, 1),
    [
      [2, "gap"],
      [2, "broken_link"],
    ],
  ],
  [
    "an entry dropped and the others renumbered",
    links.toSpliced(2, 1).map(({ entry }, i) => ({ seq: i + 1, entry })),
    [
      [3, "broken_link"],
      [4, "broken_link"],
      [5, "wrong_head"],
    ],
  ],
  [
    "an entry inserted",
    links.toSpliced(2, 0, { ...stranger, seq: 3 }),
    [
      [3, "broken_link"],
      [3, "gap"],
      [3, "broken_link"],
    ],
  ],
  [
    "an entry repeated",
    links.toSpliced(2, 0, at(1)),
    [
      [2, "gap"],
      [2, "broken_link"],
    ],
  ],
  [
    "two entries swapped",
    [at(0), at(2), at(1), at(3), at(4)],
    [
      [3, "gap"],
      [3, "broken_link"],
      [2, "gap"],
      [2, "broken_link"],
      [4, "gap"],
      [4, "broken_link"],
    ],
  ],
  [
    "two entries swapped under each other's number",
    [at(0), { seq: 2, entry: at(2).entry }, { seq: 3, entry: at(1).entry }, at(3), at(4)],
    [
      [2, "broken_link"],
      [3, "broken_link"],
      [4, "broken_link"],
    ],
  ],
  ["the tail cut off", links.slice(0, 3), [[5, "wrong_head"]]],
  ["everything rewritten from the middle", [...links.slice(0, 2), ...rewritten.links], [[5, "wrong_head"]]],
];

describe("tampering", () => {
  test.each(tampered)("%s", (_, changed, problems) => {
    const report = verified(changed, head);
    expect(report.ok).toBe(false);
    expect(report.problems).toEqual(problems.map(([seq, problem]) => ({ seq, problem })));
  });

  test.each([
    ["hash", { seq: 5, hash: "1".repeat(64) }],
    ["number", { seq: 6, hash: head.hash }],
  ])("a head of another %s", (_, wrong) => {
    expect(verified(links, wrong).problems).toEqual([{ seq: wrong.seq, problem: "wrong_head" }]);
  });

  test("any one character changed anywhere", () => {
    fc.assert(
      fc.property(fc.nat(4), fc.nat(), fc.integer({ min: 32, max: 126 }), (index, place, code) => {
        const { seq, entry } = at(index);
        const i = place % entry.length;
        fc.pre(entry.charCodeAt(i) !== code);
        const changed = entry.slice(0, i) + String.fromCharCode(code) + entry.slice(i + 1);
        expect(verified(links.with(index, { seq, entry: changed }), head).ok).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  test("any rearrangement", () => {
    fc.assert(
      fc.property(
        fc.subarray([0, 1, 2, 3, 4], { minLength: 0 }).chain((kept) => fc.shuffledSubarray(kept)),
        (order) => {
          const isWhole = order.length === 5 && order.every((index, i) => index === i);
          expect(verified(order.map(at), head).ok).toBe(isWhole);
        },
      ),
    );
  });
});
