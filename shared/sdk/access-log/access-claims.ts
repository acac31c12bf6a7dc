/** What blocks of the access log, and the chain of the tenant, state about the log: where it begins, and which blocks it has. */
import { CHAIN_START, type ChainLink, entryHash } from "../../integrity/chain.ts";

export interface AccessProblem {
  readonly seq: number;
  /**
   * `cut_off`: no block states that retention has removed those before. `not_as_stated`: the chain of the tenant states another block with this
   * number, or one that is missing.
   */
  readonly problem: "cut_off" | "not_as_stated";
}

interface ChainPlace {
  readonly seq: number;
  readonly hash: string;
}

export class AccessClaims {
  readonly #start: ChainPlace;
  readonly #stated: ReadonlyMap<number, string>;
  readonly #problems: AccessProblem[] = [];
  /** The newest statement of what was removed. */
  #pruned: ChainPlace = { seq: 0, hash: CHAIN_START };
  #last: number;
  #records = 0;
  #lost = 0;

  constructor(start: ChainPlace, stated: ReadonlyMap<number, string>) {
    this.#start = start;
    this.#last = start.seq;
    this.#stated = stated;
  }

  add(blocks: readonly ChainLink[]): void {
    for (const { seq, entry } of blocks) {
      const { pruned, entries, lost } = blockIn(entry);
      if (pruned !== undefined) this.#pruned = pruned;
      this.#records += entries?.length ?? 0;
      this.#lost += lost ?? 0;
      this.#last = seq;
      const stated = this.#stated.get(seq);
      if (stated !== undefined && stated !== entryHash(entry))
        this.#problems.push({ seq, problem: "not_as_stated" });
    }
  }

  finish(): { readonly records: number; readonly lost: number; readonly problems: readonly AccessProblem[] } {
    const { seq, hash } = this.#start;
    if (this.#pruned.seq !== seq || this.#pruned.hash !== hash)
      this.#problems.push({ seq: seq + 1, problem: "cut_off" });
    for (const one of this.#stated.keys())
      if (one > this.#last) this.#problems.push({ seq: one, problem: "not_as_stated" });
    return { records: this.#records, lost: this.#lost, problems: this.#problems };
  }
}

interface ClaimingBlock {
  readonly pruned?: ChainPlace;
  readonly entries?: readonly unknown[];
  readonly lost?: number;
}

/** A block that cannot be parsed is a problem of the chain. */
function blockIn(entry: string): ClaimingBlock {
  try {
    return (JSON.parse(entry) as ClaimingBlock | null) ?? {};
  } catch {
    return {};
  }
}
