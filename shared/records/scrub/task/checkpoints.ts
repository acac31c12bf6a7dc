/**
 * Verifies the checkpoints of a task in their order: the location of each, all its versions, and their
 * references. A step may end between two versions of one checkpoint: the row of a version may change between
 * steps, but versions disappear only with their checkpoint, which leaves a tombstone.
 */
import type { Checkpoint } from "../../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../../protocol/errors.ts";
import type { Bytes } from "../../../store/store.ts";
import { trailPlace } from "../../audit/trail-place.ts";
import { type Expected, openRow } from "../../checkpoint/body.ts";
import { decodePlace, type Place } from "../../checkpoint/checkpoint-location.ts";
import { type OrderEntry, readOrder } from "../../checkpoint/order.ts";
import { isLifted } from "../../corruption/quarantine.ts";
import { decode, readable } from "../../kv/codec.ts";
import { parseSeq } from "../../kv/keyspace.ts";
import type { Damage, TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "../trail/entries.ts";
import { verifyOrigin } from "../trail/forks.ts";
import { verifyArtifacts } from "./artifacts.ts";
import { readTombstones, verifyTombstone } from "./tombstones.ts";

/** The number of order entries in one read. */
const SLICE = 32;

/** The next version to verify. */
export interface CheckpointsAt {
  readonly seq: number;
  readonly version: number;
}

/** Returns where the next step continues; null: the order is verified up to `through`. */
export async function verifyCheckpoints(
  scrub: TaskScrub,
  at: CheckpointsAt,
  through: number,
): Promise<CheckpointsAt | null> {
  for (let { seq, version } = at; seq <= through; ) {
    const limit = Math.min(SLICE, through - seq + 1);
    const places = await readOrder(scrub.reader, scrub.keys, scrub.task, {
      from: seq,
      to: through,
      limit,
      reverse: false,
    });
    const removed = await readTombstones(
      scrub,
      places.filter(({ entry }) => entry === null).map(({ seq: at }) => at),
    );
    for (const place of places) {
      const tombstone = removed.get(place.seq);
      if (tombstone !== undefined) await verifyTombstone(scrub, place.seq, tombstone);
      else if (place.entry === null) noteLostEntry(scrub, place.seq);
      else {
        const left = await verifyCheckpoint(scrub, { seq: place.seq, entry: place.entry }, version);
        if (left !== null) return { seq: place.seq, version: left };
      }
      [seq, version] = [place.seq + 1, 1];
      await scrub.step.yieldToOthers();
      if (scrub.step.isSpent && seq <= through) return { seq, version };
    }
  }
  return null;
}

function noteLostEntry(scrub: TaskScrub, seq: number): void {
  scrub.note({
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

/** Returns the version with which the next step continues; null: all are verified. */
async function verifyCheckpoint(scrub: TaskScrub, place: OrderPlace, from: number): Promise<number | null> {
  const { reader, keys, task, step } = scrub;
  const { id, version: current } = place.entry;
  for (let version = from; version < current; version += 1) {
    if (step.isSpent && version > from) return version;
    const [row, mark] = await reader.getMany([
      keys.version(task, id, version),
      keys.quarantine(task, id, version),
    ]);
    if (wasQuarantined(scrub, mark)) continue;
    const found = await opened(scrub, id, row, { version });
    if (found === "corrupt") continue;
    step.tally.versions += 1;
    if (found !== null) {
      await verifyAudited(scrub, place, found);
      await verifyArtifacts(scrub, found);
    }
    await step.yieldToOthers();
  }
  if (step.isSpent && current > from) return current;
  await verifyCurrent(scrub, place);
  return null;
}

async function verifyCurrent(scrub: TaskScrub, place: OrderPlace): Promise<void> {
  const { reader, keys, task, step } = scrub;
  const { id, version, hash } = place.entry;
  const [whereValue, row, mark] = await reader.getMany([
    keys.id(id),
    keys.checkpoint(task, id),
    keys.quarantine(task, id, version),
  ]);
  const where = placeIn(whereValue);
  if (where?.task !== task || where.seq !== place.seq) {
    scrub.note(ofCheckpoint("place", id, "the entry that says where the checkpoint stands is lost or wrong"));
  }
  if (wasQuarantined(scrub, mark)) return;
  const found = await opened(scrub, id, row, { version, hash });
  if (found === "corrupt") return;
  step.tally.checkpoints += 1;
  if (found === null) return;
  await verifyAudited(scrub, place, found);
  await verifyLinks(scrub, place, found);
  await verifyArtifacts(scrub, found);
  await verifyOrigin(scrub, found);
}

/** null: valid, but of a newer schema, whose fields this version does not know. */
async function opened(
  scrub: TaskScrub,
  id: string,
  row: Bytes | undefined,
  expected: Expected,
): Promise<Checkpoint | "corrupt" | null> {
  const { reader, keys, task } = scrub;
  try {
    const found = await openRow(reader, keys, task, id, row, expected);
    if (found.sound) return found.checkpoint;
    noteCorrupt(scrub, id, expected, found.corrupt);
    return "corrupt";
  } catch (error) {
    if (error instanceof FleetError && error.code === "UNSUPPORTED_VERSION") return null;
    throw error;
  }
}

/**
 * A corrupt current version is quarantined. A corrupt earlier version is only reported, because no agent
 * continues from it.
 */
function noteCorrupt(
  scrub: TaskScrub,
  id: string,
  { version, hash }: Expected,
  found: CorruptCheckpoint,
): void {
  const { tenant, task } = scrub;
  const isCurrent = hash !== undefined;
  const quarantined = isCurrent && scrub.canMark;
  // The version comes from the order, because the fields of a corrupt row are unreliable.
  if (quarantined) scrub.step.corrupt.push({ tenant, task, corrupt: { ...found, version } });
  const kind = isCurrent ? "checkpoint" : "version";
  scrub.note({ kind, checkpoint_id: id, version, details: found.reason, quarantined });
}

/**
 * Whether the version was quarantined before the pass began. A later quarantine is a finding of this pass.
 */
function wasQuarantined(scrub: TaskScrub, mark: Bytes | undefined): boolean {
  if (mark === undefined || isLifted(mark)) return false;
  const at = Date.parse(readable(() => decode<{ at: string }>(mark))?.at ?? "");
  if (at >= scrub.step.passBeganMs) return false;
  scrub.step.tally.quarantined += 1;
  return true;
}

/** Verifies that a version refers to the audit entry that made it. */
async function verifyAudited(scrub: TaskScrub, { seq }: OrderPlace, checkpoint: Checkpoint): Promise<void> {
  const { tenant, task, reader, keys } = scrub;
  const { checkpoint_id: id, version, seq: own } = checkpoint.metadata;
  const about = { checkpoint_id: id, version };
  if (own !== seq) {
    scrub.note({ kind: "order", ...about, details: `stands at position ${seq}, and says ${own}` });
  }
  const at = trailPlace(checkpoint.compliance.event_log_ref, tenant, task);
  if (at === null) {
    scrub.note({ kind: "audit", ...about, details: "names another audit trail than its task's" });
    return;
  }
  const value = await reader.get(keys.audit(task, at));
  if (value === undefined && (await isPastTrail(scrub, at))) {
    scrub.note({ kind: "audit", ...about, details: `entry ${at}, which it names, is not in the trail` });
  }
  const entry = readEntry(value)?.facts;
  if (entry === undefined) return;
  const isOwn =
    entry.checkpoint_id === id && entry.version === version && entry.new_hash === checkpoint.compliance.hash;
  if (!isOwn)
    scrub.note({ kind: "audit", ...about, details: `entry ${at}, which it names, is about another` });
}

/** A gap before the end of the trail is found when the trail is verified. */
async function isPastTrail({ reader, keys, task }: TaskScrub, seq: number): Promise<boolean> {
  const { rows } = await reader.getRange(keys.auditRange(task), { limit: 1, reverse: true });
  return rows[0] === undefined || parseSeq(rows[0].key) < seq;
}

/**
 * Verifies that the parents precede the checkpoint in its task and have links to it, and that the checkpoint
 * to which `latest` falls back is in the task.
 */
async function verifyLinks(
  scrub: TaskScrub,
  { seq, entry }: OrderPlace,
  checkpoint: Checkpoint,
): Promise<void> {
  const { reader, keys, task } = scrub;
  const { checkpoint_id: id, parent_ids: parents } = checkpoint.metadata;
  const fallback = checkpoint.recovery.last_successful_state ?? null;
  if (entry.retention !== null && entry.retention !== checkpoint.compliance.retention_policy) {
    const details = "the order names another retention policy than the checkpoint does";
    scrub.note(ofCheckpoint("order", id, details));
  }
  if (entry.fallback !== fallback) {
    scrub.note(
      ofCheckpoint(
        "order",
        id,
        "the order names another checkpoint to fall back to than the checkpoint does",
      ),
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
    // A damaged location is found at its own checkpoint.
    if (value !== undefined && place === null) continue;
    const what = i < parents.length ? "its parent" : "what it falls back to,";
    if (place?.task !== task) scrub.note(ofCheckpoint("link", id, `${what} ${one} is not in the task`));
    else if (place.seq >= seq && i < parents.length) {
      scrub.note(ofCheckpoint("link", id, `${what} ${one} does not stand before it`));
    }
  }
  for (const [i, parent] of parents.entries()) {
    // A removal clears the links from a parent.
    if (links[i] !== undefined || (await isRemoved(scrub, placeIn(places[i])))) continue;
    scrub.note(ofCheckpoint("link", id, `the entry that leads to it from its parent ${parent} is lost`));
  }
}

async function isRemoved({ reader, keys }: TaskScrub, place: Place | null): Promise<boolean> {
  if (place === null) return false;
  return (await reader.get(keys.tombstone(place.task, place.seq))) !== undefined;
}

function placeIn(value: Bytes | undefined): Place | null {
  return value === undefined ? null : readable(() => decodePlace(value));
}

function ofCheckpoint(kind: Damage["kind"], id: string, details: string): Omit<Damage, "quarantined"> {
  return { kind, checkpoint_id: id, version: null, details };
}
