/**
 * The checkpoints of a task in their order: each place, every version that stands there, and what they refer to. The bounds of a step may
 * lie between two versions of one checkpoint: which row holds a version may change meanwhile, which versions there are does not.
 */
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { CorruptCheckpoint } from "../../protocol/queries.ts";
import type { Bytes } from "../../store/store.ts";
import { type Expected, openRow } from "../checkpoint/body.ts";
import { decodePlace, type Place } from "../checkpoint/checkpoint-location.ts";
import { type OrderEntry, readOrder } from "../checkpoint/order.ts";
import { decode } from "../kv/codec.ts";
import { readable } from "./head.ts";
import type { Damage, Sight } from "./scrub-reader.ts";
import { readEntry } from "./trail.ts";

/** Order entries read at once. */
const SLICE = 32;

/** The next version to verify. */
export interface CheckpointsAt {
  readonly seq: number;
  readonly version: number;
}

/** null: the order is verified up to `through`. */
export async function verifyCheckpoints(
  sight: Sight,
  at: CheckpointsAt,
  through: number,
): Promise<CheckpointsAt | null> {
  for (let { seq, version } = at; seq <= through; ) {
    const limit = Math.min(SLICE, through - seq + 1);
    const places = await readOrder(sight.reader, sight.keys, sight.task, {
      from: seq,
      to: through,
      limit,
      reverse: false,
    });
    for (const place of places) {
      if (place.entry === null) lostPlace(sight, place.seq);
      else {
        const left = await verifyCheckpoint(sight, { seq: place.seq, entry: place.entry }, version);
        if (left !== null) return { seq: place.seq, version: left };
      }
      [seq, version] = [place.seq + 1, 1];
      await sight.step.breathe();
      if (sight.step.isSpent && seq <= through) return { seq, version };
    }
  }
  return null;
}

function lostPlace(sight: Sight, seq: number): void {
  sight.note({
    kind: "order",
    checkpoint_id: null,
    version: null,
    details: `the entry of position ${seq} in the order is lost`,
  });
}

interface OrderPlace {
  readonly seq: number;
  readonly entry: OrderEntry;
}

/** The version to go on with; null: all are verified. */
async function verifyCheckpoint(sight: Sight, place: OrderPlace, from: number): Promise<number | null> {
  const { reader, keys, task, step } = sight;
  const { id, version: current } = place.entry;
  for (let version = from; version < current; version += 1) {
    if (step.isSpent && version > from) return version;
    const [row, mark] = await reader.getMany([
      keys.version(task, id, version),
      keys.quarantine(task, id, version),
    ]);
    if (isKnown(sight, mark)) continue;
    const found = await opened(sight, id, row, { version });
    if (found === "corrupt") continue;
    step.tally.versions += 1;
    if (found !== null) await verifyAudited(sight, place, found);
    await step.breathe();
  }
  if (step.isSpent && current > from) return current;
  await verifyCurrent(sight, place);
  return null;
}

async function verifyCurrent(sight: Sight, place: OrderPlace): Promise<void> {
  const { reader, keys, task, step } = sight;
  const { id, version, hash } = place.entry;
  const [whereValue, row, mark] = await reader.getMany([
    keys.id(id),
    keys.checkpoint(task, id),
    keys.quarantine(task, id, version),
  ]);
  const where = placeIn(whereValue);
  if (where?.task !== task || where.seq !== place.seq) {
    sight.note(of("place", id, "the entry that says where the checkpoint stands is lost or wrong"));
  }
  if (isKnown(sight, mark)) return;
  const found = await opened(sight, id, row, { version, hash });
  if (found === "corrupt") return;
  step.tally.checkpoints += 1;
  if (found === null) return;
  await verifyAudited(sight, place, found);
  await verifyLinks(sight, place, found);
}

/** null: sound, but of a newer schema, whose fields cannot be relied on here. */
async function opened(
  sight: Sight,
  id: string,
  row: Bytes | undefined,
  expected: Expected,
): Promise<Checkpoint | "corrupt" | null> {
  const { reader, keys, task } = sight;
  try {
    const found = await openRow(reader, keys, task, id, row, expected);
    if (found.sound) return found.checkpoint;
    corrupt(sight, id, expected, found.corrupt);
    return "corrupt";
  } catch (error) {
    if (error instanceof FleetError && error.code === "UNSUPPORTED_VERSION") return null;
    throw error;
  }
}

/** What would be served is quarantined; an earlier version is not what anybody goes on from, and is only reported. */
function corrupt(sight: Sight, id: string, { version, hash }: Expected, found: CorruptCheckpoint): void {
  const { tenant, task } = sight;
  const isCurrent = hash !== undefined;
  const quarantined = isCurrent && sight.canMark;
  // The version that the order names: what the row says of itself is not to be relied on.
  if (quarantined) sight.step.corrupt.push({ tenant, task, corrupt: { ...found, version } });
  const kind = isCurrent ? "checkpoint" : "version";
  sight.note({ kind, checkpoint_id: id, version, details: found.reason, quarantined });
}

/** Whether the version had been quarantined when the pass began; one that was meanwhile is a finding of this pass. */
function isKnown(sight: Sight, mark: Bytes | undefined): boolean {
  if (mark === undefined) return false;
  const at = Date.parse(readable(() => decode<{ at: string }>(mark))?.at ?? "");
  if (at >= sight.step.passBeganMs) return false;
  sight.step.tally.quarantined += 1;
  return true;
}

const REF = /^(.*)#([1-9][0-9]*)$/;

/** The audit entry that a version names is the one that made it. An entry that is lost is met in the trail itself. */
async function verifyAudited(sight: Sight, { seq }: OrderPlace, checkpoint: Checkpoint): Promise<void> {
  const { tenant, task, reader, keys } = sight;
  const { checkpoint_id: id, version, seq: own } = checkpoint.metadata;
  const about = { checkpoint_id: id, version };
  if (own !== seq) {
    sight.note({ kind: "order", ...about, details: `stands at position ${seq}, and says ${own}` });
  }
  const [, trail, at] = REF.exec(checkpoint.compliance.event_log_ref) ?? [];
  if (trail !== `audit/${tenant}/${task}`) {
    sight.note({ kind: "audit", ...about, details: "names another audit trail than its task's" });
    return;
  }
  const entry = readEntry(await reader.get(keys.audit(task, Number(at))))?.facts;
  if (entry === undefined) return;
  const isOwn =
    entry.checkpoint_id === id && entry.version === version && entry.new_hash === checkpoint.compliance.hash;
  if (!isOwn)
    sight.note({ kind: "audit", ...about, details: `entry ${at}, which it names, is about another` });
}

/** Parents stand before it in its task, and lead to it; so does what `latest` falls back to. */
async function verifyLinks(sight: Sight, { seq, entry }: OrderPlace, checkpoint: Checkpoint): Promise<void> {
  const { reader, keys, task } = sight;
  const { checkpoint_id: id, parent_ids: parents } = checkpoint.metadata;
  const fallback = checkpoint.recovery.last_successful_state ?? null;
  if (entry.fallback !== fallback) {
    sight.note(
      of("order", id, "the order names another checkpoint to fall back to than the checkpoint does"),
    );
  }
  const named = [...parents, ...(fallback === null ? [] : [fallback])];
  const [places, links] = [
    await reader.getMany(named.map((one) => keys.id(one))),
    await reader.getMany(parents.map((one) => keys.child(task, one, id))),
  ];
  for (const [i, one] of named.entries()) {
    const value = places[i];
    const place = placeIn(value);
    // A damaged one is met at its own place.
    if (value !== undefined && place === null) continue;
    const what = i < parents.length ? "its parent" : "what it falls back to,";
    if (place?.task !== task) sight.note(of("link", id, `${what} ${one} is not in the task`));
    else if (place.seq >= seq && i < parents.length) {
      sight.note(of("link", id, `${what} ${one} does not stand before it`));
    }
  }
  for (const [i, parent] of parents.entries()) {
    if (links[i] !== undefined) continue;
    sight.note(of("link", id, `the entry that leads to it from its parent ${parent} is lost`));
  }
}

function placeIn(value: Bytes | undefined): Place | null {
  return value === undefined ? null : readable(() => decodePlace(value));
}

function of(kind: Damage["kind"], id: string, details: string): Omit<Damage, "quarantined"> {
  return { kind, checkpoint_id: id, version: null, details };
}
