/**
 * The audit chain: each entry names the hash of the entry before it, so an entry that is changed, dropped,
 * added or moved breaks the chain. Pure functions over the exact bytes; an auditor needs nothing else to
 * verify a trail.
 */
import { canonicalText, sha256Hex } from "./canonical.ts";

/** The `prev` of a task's first entry. */
export const CHAIN_START = "0".repeat(64);

export interface ChainLink {
  readonly seq: number;
  /** The canonical JSON of the entry: the hashed text. */
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

/** The end of the chain of a task, as a line of a digest of many. */
export const chainEnd = (
  task: string,
  { seq, hash }: { readonly seq: number; readonly hash: string },
): string => `${task} ${seq} ${hash}\n`;

/** A task that could not be read, as another line of that digest. */
export const chainUnreadable = (task: string): string => `${task} unreadable\n`;

export function entryHash(entry: string): string {
  return sha256Hex(entry);
}

/**
 * Reads an entry for the verifier. An entry that cannot be parsed is a finding, not a failure of the
 * verifier.
 */
function parse(entry: string): { prev?: unknown; seq?: unknown; canonical: boolean } {
  try {
    const value = JSON.parse(entry) as { prev?: unknown; seq?: unknown };
    return { prev: value.prev, seq: value.seq, canonical: canonicalText(value) === entry };
  } catch {
    return { canonical: false };
  }
}

/**
 * Verifies link after link; several pages of one chain pass through one verifier. `from` is the link before
 * the first one that is added; with it, a later part of a chain can be verified alone.
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
    /** The last added link and the problems so far, from which another verifier can continue. */
    reached(): { seq: number; hash: string; problems: readonly ChainProblem[] } {
      return { seq: last, hash: prev, problems: [...problems] };
    },
    /** `head` is the newest entry according to the task's record. */
    finish(head: { seq: number; hash: string }): ChainReport {
      if (head.seq !== last || head.hash !== prev) problems.push({ seq: head.seq, problem: "wrong_head" });
      return { ok: problems.length === 0, entries, head: prev, problems };
    },
  };
}
