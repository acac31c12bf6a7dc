/**
 * The state of the scrub: one small record that is written with every step, so that another instance can
 * continue exactly there. A request for a pass is written into it too, for the instance that holds the lease.
 */
import type { EndedScrubPass, ScrubPass, ScrubStatus } from "../../protocol/scrub.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { readCheckpointCount, readCount } from "../kv/counters.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { type LedJob, readHolder } from "../leader/lease.ts";
import type { SampleAt, SamplePlace } from "./artifact-sample.ts";
import type { CountersAtStart } from "./counters.ts";
import type { EventsAt } from "./events.ts";
import type { WalkPlace } from "./walk.ts";

export const SCRUB_JOB = "scrub" satisfies LedJob;

/**
 * The position in a pass: first the whole store is read, then the event stream, then a
 * sample of the artifacts, then findings of earlier passes
 * that this one did not find are deleted.
 */
export type PassPlace =
  | { readonly stage: "walk"; readonly place: WalkPlace }
  | { readonly stage: "events"; readonly place: EventsAt }
  | { readonly stage: "artifacts"; readonly place: SampleAt }
  | { readonly stage: "forget"; readonly after: Bytes | null };

export interface ScrubSettings {
  readonly rateBytes: number;
  /** The time between the beginnings of two passes; null: passes run on request only. */
  readonly everyMs: number | null;
}

interface OpenPass extends ScrubPass {
  /** Absent in a pass that an earlier version began. */
  readonly counters?: CountersAtStart;
  readonly at: PassPlace;
}

export interface ScrubState {
  /** Grows with every write. A step that read an older revision is not written. */
  readonly revision: number;
  /** The number of passes begun so far. */
  readonly passes: number;
  readonly current: OpenPass | null;
  readonly last: EndedScrubPass | null;
  /** The number of the last requested pass; 0: there was no request. */
  readonly requested: number;
  /** The number of findings without an alert. */
  readonly untold: number;
  /** The last artifact whose bytes were hashed. Absent: the next pass begins with the first. */
  readonly sampled?: SamplePlace | undefined;
  /** The settings of the last instance that made a step. */
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

/** Changes with every step, and with a request for a pass. */
export const scrubStateKey = (): Bytes => systemKeys.meta("scrub");

/** Reads the state. A damaged one counts as empty, because damage must not stop the scrub. */
export async function readScrubState(reader: Reader): Promise<ScrubState> {
  const value = await reader.get(scrubStateKey());
  if (value === undefined) return EMPTY;
  try {
    return decodeChecked<ScrubState>(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return EMPTY;
    throw error;
  }
}

export function writeScrubState(tx: Tx, state: ScrubState): void {
  tx.set(scrubStateKey(), encodeChecked({ ...state, revision: state.revision + 1 }));
}

/**
 * Requests a pass that begins after the request, even if another is in progress. Repeated requests count as
 * one. Returns false if this one has no effect.
 */
export async function requestScrub(tx: Tx): Promise<boolean> {
  const state = await readScrubState(tx);
  if (state.requested > state.passes) return false;
  writeScrubState(tx, { ...state, requested: state.passes + 1 });
  return true;
}

/**
 * Whether a pass should begin. A begin in the future, from a clock that ran ahead, must not delay it by more
 * than the interval.
 */
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

/** The status of the scrub in one snapshot. */
export async function readScrubStatus(reader: Reader, nowMs: number): Promise<ScrubStatus> {
  const { current, last, requested, settings } = await readScrubState(reader);
  return {
    current: current === null ? null : passIn(current),
    last,
    requested_pass: requested > (last?.pass ?? 0) ? requested : null,
    by: await readHolder(reader, SCRUB_JOB, nowMs),
    rate_bytes: settings?.rateBytes ?? null,
    every_ms: settings?.everyMs ?? null,
    total: { tasks: await readCount(reader, "tasks"), checkpoints: await readCheckpointCount(reader) },
  };
}

function passIn({ at: _at, counters: _counters, ...pass }: OpenPass): ScrubPass {
  return pass;
}
