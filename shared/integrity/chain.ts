/**
 * The audit chain: each entry names the hash of the one before it, so that an entry cannot be changed, dropped, added or moved
 * without every later hash telling. Pure functions over the exact bytes; an auditor needs nothing else to verify.
 */
import { canonicalText, sha256Hex } from "./canonical.ts";

/** `prev` of a task's first entry. */
export const CHAIN_START = "0".repeat(64);

export interface ChainLink {
  readonly seq: number;
  /** The canonical JSON of the entry, as hashed. */
  readonly entry: string;
}

export interface ChainProblem {
  readonly seq: number;
  readonly problem: "gap" | "broken_link" | "not_canonical" | "wrong_head";
}

export interface ChainReport {
  readonly ok: boolean;
  readonly entries: number;
  readonly head: string;
  readonly problems: readonly ChainProblem[];
}

export function entryHash(entry: string): string {
  return sha256Hex(entry);
}

/** What the verifier needs of an entry; an entry that cannot even be parsed is a finding, not a failure of the verifier. */
function parse(entry: string): { prev?: unknown; seq?: unknown; canonical: boolean } {
  try {
    const value = JSON.parse(entry) as { prev?: unknown; seq?: unknown };
    return { prev: value.prev, seq: value.seq, canonical: canonicalText(value) === entry };
  } catch {
    return { canonical: false };
  }
}

/**
 * Verifies link after link; several pages of one chain go through one verifier. `from`: the link before the first one that is added,
 * for whoever needs to know only what came after it.
 */
export function createChainVerifier(from: { seq: number; hash: string } = { seq: 0, hash: CHAIN_START }) {
  let prev = from.hash;
  let last = from.seq;
  let entries = 0;
  const problems: ChainProblem[] = [];

  return {
    add(link: ChainLink): void {
      entries += 1;
      if (link.seq !== last + 1) problems.push({ seq: link.seq, problem: "gap" });
      const parsed = parse(link.entry);
      if (!parsed.canonical) problems.push({ seq: link.seq, problem: "not_canonical" });
      if (parsed.prev !== prev || parsed.seq !== link.seq)
        problems.push({ seq: link.seq, problem: "broken_link" });
      last = link.seq;
      prev = entryHash(link.entry);
    },
    /** The last link that was added, and what was wrong so far: to go on from there another time. */
    reached(): { seq: number; hash: string; problems: readonly ChainProblem[] } {
      return { seq: last, hash: prev, problems: [...problems] };
    },
    /** `head`: what the task's record says the newest entry is. */
    finish(head: { seq: number; hash: string }): ChainReport {
      if (head.seq !== last || head.hash !== prev) problems.push({ seq: head.seq, problem: "wrong_head" });
      return { ok: problems.length === 0, entries, head: prev, problems };
    },
  };
}
