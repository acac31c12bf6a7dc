/**
 * Verifies the audit trail of a task: its hash chain up to the end that the head records, and each entry
 * against the version that it made. The entries are folded, and the task, its handoffs and its quarantine
 * marks must be what they lead to.
 */

import { CHAIN_START, createChainVerifier } from "../../../integrity/chain.ts";
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { groupBy } from "../../../protocol/group-by.ts";
import { isId } from "../../../protocol/ids.ts";
import type { Bytes } from "../../../store/store.ts";
import { decodePlace, type Place } from "../../checkpoint/checkpoint-location.ts";
import { decodeOrder } from "../../checkpoint/order.ts";
import { readable } from "../../kv/codec.ts";
import { parseSeq } from "../../kv/keyspace.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import type { Extent } from "../task/head.ts";
import { type AppliedCommand, verifyAppliedCommands } from "./commands.ts";
import { readEntry } from "./entries.ts";
import { verifyEsignatures, verifyEsignaturesRecorded } from "./esignatures.ts";
import { FOLD_START, type Fold, foldEntries, verifyFold, verifyHandoffsOf } from "./fold.ts";
import { verifyForks } from "./forks.ts";
import { verifyLogged } from "./log-places.ts";
import { readMarks, verifyMarked, verifyMarks, withoutAudited } from "./marks.ts";
import { verifyNoneAfter, verifySignatures } from "./signatures.ts";
import { verifyStatedRecords } from "./stated-records.ts";

/** The number of entries in one read. */
const SLICE = 64;

/** The last verified entry, from which the chain verifier continues. */
export interface TrailAt {
  readonly seq: number;
  readonly hash: string;
  /** The number of checkpoints created so far; null: unknown, because an entry is lost. */
  readonly created: number | null;
  /** The fold of the entries so far; null: an entry lacks a fact, or the trail is damaged. */
  readonly fold?: Fold | null;
  /** The quarantine marks whose entry has not been met; null: unknown. */
  readonly marks?: readonly string[] | null;
  /** The newest command of the trail. */
  readonly command?: AppliedCommand | null;
}

export const TRAIL_START: TrailAt = { seq: 0, hash: CHAIN_START, created: 0, fold: FOLD_START };

/** Returns where the next step continues; null: the trail is verified up to its extent. */
export async function verifyTrail(scrub: TaskScrub, from: TrailAt, extent: Extent): Promise<TrailAt | null> {
  const { reader, keys, task, step } = scrub;
  const seen = new Map<string, number>();
  for (let at = from.seq === 0 ? { ...from, marks: await readMarks(scrub) } : from; ; ) {
    const range = { begin: keys.audit(task, at.seq + 1), end: keys.audit(task, extent.auditSeq + 1) };
    const { rows, more } = await reader.getRange(range, { limit: SLICE });
    const entries = rows.map(({ key, value }) => ({ seq: parseSeq(key), read: readEntry(value) }));
    const chain = createChainVerifier(at);
    for (const { seq, read } of entries) chain.add({ seq, entry: read?.text ?? "" });
    const { seq, hash, problems } = chain.reached();
    noteProblems(scrub, problems);
    const facts = entries.map((entry) => entry.read?.facts);
    const isWhole = problems.length === 0 && facts.every((one) => one !== undefined);
    at = {
      seq,
      hash,
      created: await verifyVersions(scrub, facts, isWhole ? at.created : null),
      fold: isWhole ? await foldEntries(scrub, at.fold ?? null, facts as AuditEntry[]) : null,
      command: await verifyAppliedCommands(scrub, facts, { newest: at.command ?? null, seen }),
      marks: isWhole ? withoutAudited(at.marks ?? null, facts as AuditEntry[]) : null,
    };
    await verifyHandoffList(scrub, facts);
    await verifyRemoved(scrub, facts);
    await verifyMarked(scrub, facts);
    await verifyForks(scrub, facts);
    await verifyEsignatures(scrub, facts);
    await verifyStatedRecords(scrub, facts);
    await verifySignatures(scrub, scrub.task, entries);
    await verifyLogged(scrub, scrub.task, entries);
    step.tally.audit_entries += entries.length;
    await step.yieldToOthers();
    if (!more) {
      verifyEnd(scrub, at, facts.at(-1), extent);
      await verifyNoneAfter(scrub, scrub.task, extent.auditSeq);
      await verifyEsignaturesRecorded(scrub);
      await verifyLater(scrub, at, extent);
      return null;
    }
    if (step.isSpent) return at;
  }
}

/**
 * Verifies the records that change with later entries too, so it reads these entries first. A task with many
 * later entries is left to the next pass.
 */
async function verifyLater(scrub: TaskScrub, { fold, marks, seq }: TrailAt, extent: Extent): Promise<void> {
  const { reader, keys, task } = scrub;
  if (extent.head === null || seq !== extent.auditSeq) return;
  const range = { begin: keys.audit(task, seq + 1), end: keys.auditRange(task).end };
  const { rows, more } = await reader.getRange(range, { limit: SLICE });
  const later = rows.map(({ value }) => readEntry(value)?.facts);
  if (more || !later.every((one) => one !== undefined)) return;
  verifyMarks(scrub, withoutAudited(marks ?? null, later));
  const folded = await foldEntries(scrub, fold ?? null, later);
  if (folded !== null) await verifyHandoffsOf(scrub, folded);
}

const PROBLEMS: Readonly<Record<string, string>> = {
  gap: "an entry is missing before it",
  broken_link: "it does not name the hash of the one before it",
  not_canonical: "its bytes are damaged",
};

function noteProblems(scrub: TaskScrub, problems: readonly { seq: number; problem: string }[]): void {
  const ofEntry = groupBy(problems, ({ seq }) => seq);
  for (const [seq, some] of ofEntry) {
    const causes = some.map(({ problem }) => PROBLEMS[problem] ?? problem).join("; ");
    scrub.note(ofTask("audit", `entry ${seq}: ${causes}`));
  }
}

/** Verifies that each version made by an entry exists. Returns the number of checkpoints created so far. */
async function verifyVersions(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
  before: number | null,
): Promise<number | null> {
  const { reader, keys, task } = scrub;
  const made = entries.flatMap((facts) => (makesVersion(facts) ? [facts] : []));
  const places = await reader.getMany(made.map(({ checkpoint_id }) => keys.id(checkpoint_id)));
  const known = made.map((facts, i) => {
    const value = places[i];
    return { facts, place: value === undefined ? null : readable(() => decodePlace(value)) };
  });
  // A lost location is found when the order is verified.
  const placed = known.flatMap(({ facts, place }) => (place?.task === task ? [{ facts, place }] : []));
  const rows = await reader.getMany(placed.map(({ place }) => keys.order(task, place.seq)));
  for (const [i, { facts }] of placed.entries()) verifyVersion(scrub, facts, rows[i]);
  const placeOf = new Map<AuditEntry, Place>(placed.map(({ facts, place }) => [facts, place]));
  let created = before;
  for (const facts of entries) {
    if (created === null || facts === undefined || !createsCheckpoint(facts)) continue;
    created += 1;
    const seq = placeOf.get(facts)?.seq ?? created;
    if (seq === created) continue;
    const details = `entry ${facts.seq} made checkpoint ${created} of the task, which stands at position ${seq}`;
    scrub.note({ kind: "audit", checkpoint_id: String(facts.checkpoint_id), version: null, details });
  }
  return created;
}

/**
 * Verifies that each handoff begun by an entry is listed with the task, so that its record is verified too.
 */
async function verifyHandoffList(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
): Promise<void> {
  const { reader, keys, task } = scrub;
  const begun = entries.flatMap((facts) =>
    facts?.op === "handoff" && isId(facts.handoff_id) ? [facts.handoff_id] : [],
  );
  const listed = await reader.getMany(begun.map((id) => keys.taskHandoff(task, id)));
  for (const [i, id] of begun.entries()) {
    if (listed[i] === undefined) scrub.note(ofTask("handoff", `handoff ${id} is not among the task's`));
  }
}

/** Verifies that each removal left its tombstone. */
async function verifyRemoved(scrub: TaskScrub, entries: readonly (AuditEntry | undefined)[]): Promise<void> {
  const { reader, keys, task } = scrub;
  const ids = entries.flatMap((facts) =>
    isRemoval(facts) && isId(facts.checkpoint_id) ? [facts.checkpoint_id] : [],
  );
  if (ids.length === 0) return;
  const places = (await reader.getMany(ids.map((id) => keys.id(id)))).map((value) =>
    value === undefined ? null : readable(() => decodePlace(value)),
  );
  // A lost location is found when the tombstones are verified.
  const placed = ids.flatMap((id, i) => (places[i]?.task === task ? [{ id, seq: places[i].seq }] : []));
  const values = await reader.getMany(placed.map(({ seq }) => keys.tombstone(task, seq)));
  for (const [i, { id, seq }] of placed.entries()) {
    if (values[i] !== undefined) continue;
    const details = `the checkpoint at position ${seq} was removed, and its tombstone is lost`;
    scrub.note({ kind: "tombstone", checkpoint_id: id, version: null, details });
  }
}

function isRemoval(facts: AuditEntry | undefined): facts is AuditEntry {
  return facts?.op === "remove" || facts?.op === "import_removed";
}

interface MadeVersion extends AuditEntry {
  readonly op: string;
  readonly seq: number;
  readonly checkpoint_id: string;
  readonly version: number;
  readonly new_hash: string;
}

function createsCheckpoint(facts: AuditEntry): boolean {
  const { op, version } = facts;
  // The tombstone at the position is verified against the entry.
  if (op === "import_removed") return true;
  return makesVersion(facts) && (op === "create" || (op === "import_version" && version === 1));
}

function makesVersion(facts: AuditEntry | undefined): facts is MadeVersion {
  return (
    facts !== undefined &&
    isId(facts.checkpoint_id) &&
    typeof facts.version === "number" &&
    typeof facts.new_hash === "string"
  );
}

function verifyVersion(
  scrub: TaskScrub,
  { seq, checkpoint_id, version, new_hash }: MadeVersion,
  row?: Bytes,
): void {
  const entry = decodeOrder(row);
  if (entry === null || entry.id !== checkpoint_id) return;
  const details =
    entry.version < version
      ? `entry ${seq} made version ${version}, and the order goes to ${entry.version}`
      : entry.version === version && entry.hash !== new_hash
        ? `entry ${seq} made version ${version} with another hash than the order names`
        : null;
  if (details !== null) scrub.note({ kind: "audit", checkpoint_id, version, details });
}

function verifyEnd(scrub: TaskScrub, at: TrailAt, last: AuditEntry | undefined, { head }: Extent): void {
  if (head === null) return;
  if (at.seq !== head.audit_seq || at.hash !== head.audit_hash) {
    scrub.note(ofTask("audit", "the trail does not end where the head says"));
  } else if (last !== undefined && !(isStateOf(last, head) && last.fence === head.fence)) {
    scrub.note(ofTask("head", "the head says another state or fence than the last entry of the trail"));
  } else if (at.fold != null && head.replayed !== undefined) verifyFold(scrub, at.fold, head.replayed);
  if (at.created !== null && at.created !== head.seq) {
    scrub.note(ofTask("audit", `the trail made ${at.created} checkpoints, and the head counts ${head.seq}`));
  }
}

function isStateOf(
  { state_to }: AuditEntry,
  { state, may_be_blocked }: NonNullable<Extent["head"]>,
): boolean {
  return state_to === state || (may_be_blocked === true && state === "active" && state_to === "blocked");
}
