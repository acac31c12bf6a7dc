/**
 * Deaths at chosen moments, which no clock would meet: a process that has come to one asks its parent to be killed and does nothing more.
 * The parent kills it with SIGKILL, counts the moment, and starts it again.
 */
import type { Store } from "../../../shared/store/store.ts";
import { wrappedStore } from "../../harness/wrapped-store.ts";
import { instant } from "./history.ts";

/** What a process tells its parent when it has come to its moment. */
export interface Dying {
  readonly dying: string;
}

/** Whether a process dies here; the moments end before the faults do, as {@link instant}. */
export interface Deaths {
  readonly untilUs: number;
  readonly share: number;
  readonly random: () => number;
}

export const strikes = ({ untilUs, share, random }: Deaths): boolean =>
  random() < share && instant() < untilUs;

/** Never resolves: nothing of this process runs on once the parent has been told. */
export function die(moment: string): Promise<never> {
  const forever = new Int32Array(new SharedArrayBuffer(4));
  process.send?.({ dying: moment } satisfies Dying, () => void Atomics.wait(forever, 0, 0));
  return new Promise(() => {});
}

/** The moves of coordinators, by the names of their transactions. */
const MOVES: ReadonlySet<string> = new Set(["offer", "escalate", "lapse", "reject"]);

/** A store whose process dies at times when a coordinator is about to move a handoff, or has just done so. */
export function dyingStore(store: Store, deaths: Deaths): Store {
  return wrappedStore(store, async (options, body) => {
    if (!MOVES.has(options.label)) return store.transact(options, body);
    if (strikes(deaths)) return die(`coordinator before ${options.label}`);
    const committed = await store.transact(options, body);
    if (strikes(deaths)) return die(`coordinator after ${options.label}`);
    return committed;
  });
}
