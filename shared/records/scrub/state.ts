/**
 * Where the scrub stands: one small record that is written with every step, so that whoever takes the duty over goes on exactly there. A
 * request for a pass is written into it too; whoever has the duty sees it.
 */
import type { EndedScrubPass, ScrubPass, ScrubStatus } from "../../protocol/scrub.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { readCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { readHolder } from "../leader/lease.ts";
import type { WalkPlace } from "./walk.ts";

export const SCRUB_DUTY = "scrub";

/** What is done of a pass: everything is walked through, and then what earlier passes found and this one did not is forgotten. */
export type PassPlace =
  | { readonly stage: "walk"; readonly place: WalkPlace }
  | { readonly stage: "forget"; readonly after: Bytes | null };

export interface ScrubSettings {
  readonly rateBytes: number;
  /** Between the beginnings of passes; null: only when asked. */
  readonly everyMs: number | null;
}

export interface ScrubState {
  /** Grows with every write: a step that was planned on an older state is not written. */
  readonly revision: number;
  /** Passes begun so far. */
  readonly passes: number;
  readonly current: (ScrubPass & { readonly at: PassPlace }) | null;
  readonly last: EndedScrubPass | null;
  /** The latest pass that was asked for; 0: none ever was. */
  readonly requested: number;
  /** Findings that an alert is still to be made of. */
  readonly untold: number;
  /** Of the service that had the duty last. */
  readonly settings: ScrubSettings | null;
}

const EMPTY: ScrubState = {
  revision: 0,
  passes: 0,
  current: null,
  last: null,
  requested: 0,
  untold: 0,
  settings: null,
};

const scrubKey = (): Bytes => systemKeys.meta("scrub");

/** A damaged one is begun anew: the scrub must not end by what it is there to find. */
export async function readScrubState(reader: Reader): Promise<ScrubState> {
  const value = await reader.get(scrubKey());
  if (value === undefined) return EMPTY;
  try {
    return decodeChecked<ScrubState>(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return EMPTY;
    throw error;
  }
}

export function writeScrubState(tx: Tx, state: ScrubState): void {
  tx.set(scrubKey(), encodeChecked({ ...state, revision: state.revision + 1 }));
}

/** Asks for a pass that begins from now on: what is under way has read some of it before. Asked twice, it is one. */
export async function requestScrub(tx: Tx): Promise<void> {
  const state = await readScrubState(tx);
  if (state.requested > state.passes) return;
  writeScrubState(tx, { ...state, requested: state.passes + 1 });
}

/** Whether a pass should begin. A clock that ran ahead must not put it off for longer than one that is right. */
export function isDue(
  { requested, passes, current, last }: ScrubState,
  everyMs: number | null,
  nowMs: number,
): boolean {
  if (current !== null) return false;
  if (requested > passes) return true;
  if (everyMs === null) return false;
  return last === null || Math.abs(nowMs - Date.parse(last.began_at)) >= everyMs;
}

/** Status as of one snapshot. */
export async function readScrubStatus(reader: Reader, nowMs: number): Promise<ScrubStatus> {
  const { current, last, requested, settings } = await readScrubState(reader);
  return {
    current: current === null ? null : passIn(current),
    last,
    requested_pass: requested > (last?.pass ?? 0) ? requested : null,
    by: await readHolder(reader, SCRUB_DUTY, nowMs),
    rate_bytes: settings?.rateBytes ?? null,
    every_ms: settings?.everyMs ?? null,
    total: { tasks: await readCount(reader, "tasks"), checkpoints: await readCount(reader, "checkpoints") },
  };
}

function passIn({ at: _at, ...pass }: ScrubPass & { readonly at: PassPlace }): ScrubPass {
  return pass;
}
