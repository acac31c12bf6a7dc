/**
 * The content of a task, in each key space: what shredding removes, and why the rest is no content. A key space that is not named here is
 * a type error.
 *
 * In an encrypted store the keys of the task are destroyed too, so the content in older copies of its rows cannot be read with the keys of the store.
 */
import { NO_LOCKS } from "../../../lifecycle/mission/locks.ts";
import { EMPTY_MAILBOX } from "../../../lifecycle/mission/mailbox.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import { alertId } from "../../../protocol/alerts.ts";
import { FleetError } from "../../../protocol/errors.ts";
import { STORE_LIMITS, type Tx } from "../../../store/store.ts";
import { destroyDataKeys } from "../../encryption/encrypted-store.ts";
import { soundHandoff } from "../../handoff/record.ts";
import { encodeChecked } from "../../kv/codec.ts";
import { elementsOf, formatUuid } from "../../kv/key-elements.ts";
import { endingId, type Subspace, type TenantKeys, tenantKeys } from "../../kv/keyspace.ts";
import { readMailbox } from "../../mission/messages/mailbox-records.ts";
import { indexLocks, indexMailbox } from "../../mission/mission-due.ts";
import { readLocks } from "../../mission/mission-records.ts";

const FACTS = "stays: the audit trail has ids, codes, times, hashes and the paths of locks, no other content";
const HASHES = "stays: hashes and signatures, which prove the trail";
const SIGNED =
  "stays: the statements of people who signed, with names, reasons and tokens, and none of the content";
const PLACES = "stays: ids and positions";
const NOT_OF_TASKS = "is not of a task";

/** By key space: `removed`, or why it stays. */
export const SHREDDED: Readonly<Record<Subspace, string>> = {
  checkpoints: "removed",
  versions: "removed",
  chunks: "removed",
  ids: PLACES,
  order: "removed",
  tombstones: "stays: id, last hash and removal of each checkpoint",
  tasks: "removed: texts of failures, blocks and choices. Stays: ids, state, shredding",
  children: "removed",
  audit: FACTS,
  quarantine: "stays: a code and a time",
  handoffs: "removed: reasons and details. Stays: ids, states and times, which the trail states",
  task_handoffs: PLACES,
  recovering: PLACES,
  alert_acks: "removed",
  access_blocks: "stays: who has read what and when, in ids, codes, times and numbers",
  access_chain: HASHES,
  access_sessions: NOT_OF_TASKS,
  access_tasks: PLACES,
  tenant_audit: FACTS,
  tenant_chain: HASHES,
  signatures: HASHES,
  tenant_signatures: HASHES,
  esignatures: SIGNED,
  esigned: PLACES,
  signers: NOT_OF_TASKS,
  passkeys: NOT_OF_TASKS,
  sign_failures: NOT_OF_TASKS,
  log: HASHES,
  log_tiles: HASHES,
  log_anchors: HASHES,
  log_restores: PLACES,
  log_places: HASHES,
  tenant_log_places: HASHES,
  sessions: "removed, if their newest event names the task",
  session_folders: "removed with their session",
  task_sessions: "removed with their session",
  missions: "removed",
  active_missions: "removed",
  sorties: "removed",
  mission_locks: "removed",
  agent_locks: "removed",
  mission_messages: "removed",
  artifacts: "removed after the grace time, if no other task references them",
  artifact_uploads: "removed with their artifact",
  artifact_references: "removed",
  checkpoint_artifacts: "removed",
  artifact_bytes: NOT_OF_TASKS,
  idem: "forgotten by itself after 48 hours: ids, states and hashes of the answers, and blockers of a mission",
  ix: "removed by the indexer, which follows each removal",
  text: "removed by the indexer within minutes",
  posted: "removed by the indexer within minutes",
  dropped: "removed by the indexer",
  meta: NOT_OF_TASKS,
  feed: PLACES,
  outbox:
    "removed: offers, which have a prompt. Events have ids, codes and the reasons of handoffs and recoveries, and are published within seconds",
  bell: NOT_OF_TASKS,
  expiry: PLACES,
  retention: PLACES,
  alert_ack_expiry: PLACES,
  session_expiry: PLACES,
  handoff_due: PLACES,
  recovery_due: PLACES,
  agent_lease: PLACES,
  mission_due: "removed",
  scrub: "stays: findings name ids and kinds of damage",
  signing_keys: NOT_OF_TASKS,
  log_due: NOT_OF_TASKS,
  log_behind: NOT_OF_TASKS,
  shreds: PLACES,
  lease: NOT_OF_TASKS,
  count: NOT_OF_TASKS,
  data_keys: "removed",
  tenant_keys: NOT_OF_TASKS,
  bucket_keys: NOT_OF_TASKS,
  system_keys: NOT_OF_TASKS,
  encryption: NOT_OF_TASKS,
};

interface TaskPlace {
  readonly tenant: string;
  readonly task: string;
}

/** Handoffs whose texts are removed in one transaction. */
const HANDOFFS_MAX = 100;

/**
 * Removes all content but the checkpoints that the order names. Returns the ids of the destroyed keys; null: more content is left for another
 * transaction.
 */
export async function clearContent(tx: Tx, task: TaskRecord): Promise<readonly string[] | null> {
  const keys = tenantKeys(task.tenant);
  if (!(await clearHandoffs(tx, keys, task.task_id))) return null;
  if (!(await clearArtifactReferences(tx, keys, task.task_id))) return null;
  for (const subspace of ["checkpoints", "versions", "chunks", "children", "order"] as const)
    tx.clearRange(keys.ofTask(subspace, task.task_id));
  clearAcknowledgements(tx, { tenant: task.tenant, task: task.task_id });
  await clearMission(tx, keys, task);
  // The record of the task, which stays, is written after this with a new key.
  return destroyDataKeys(tx, task.tenant, task.task_id);
}

/** Of the alerts of the task, whose ids begin with tenant and task. Their notes are free text. */
export function clearAcknowledgements(tx: Tx, { tenant, task }: TaskPlace): void {
  const keys = tenantKeys(tenant);
  const first = alertId({ tenant, task, occasion: "" });
  // `0` is the byte after `/`, so these are the ids that begin with tenant, task and `/`.
  tx.clearRange({ begin: keys.alertAck(first), end: keys.alertAck(`${first.slice(0, -1)}0`) });
}

/** The rest of the record is in the trail, and proves that no handoff was left out. */
async function clearHandoffs(tx: Tx, keys: TenantKeys, task: string): Promise<boolean> {
  let left = HANDOFFS_MAX;
  const { begin, end } = keys.taskHandoffs(task);
  for (let from = begin; ; ) {
    const { rows, more } = await tx.snapshot.getRange({ begin: from, end }, { limit: HANDOFFS_MAX });
    const ids = rows.map(({ key }) => endingId(key));
    const values = await tx.getMany(ids.map((id) => keys.handoff(id)));
    for (const [i, id] of ids.entries()) {
      const handoff = soundHandoff(id, values[i]);
      if (handoff === null) {
        tx.clear(keys.handoff(id));
        continue;
      }
      if (handoff.reason === null && (handoff.failure?.details ?? null) === null) continue;
      if (left === 0) return false;
      left -= 1;
      const failure = handoff.failure && { ...handoff.failure, details: null };
      tx.set(keys.handoff(id), encodeChecked({ ...handoff, reason: null, failure }));
    }
    const last = rows.at(-1);
    if (!more || last === undefined) return true;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
}

/** Those of checkpoints that the order does not name. */
async function clearArtifactReferences(tx: Tx, keys: TenantKeys, task: string): Promise<boolean> {
  const range = keys.ofTask("checkpoint_artifacts", task);
  const { rows, more } = await tx.getRange(range, { limit: STORE_LIMITS.range_rows_max });
  for (const { key } of rows) {
    const [id, hash] = elementsOf(key).slice(-2) as [{ readonly value: Buffer }, string];
    tx.clear(keys.artifactReference(hash, task, formatUuid(id.value)));
    tx.clear(key);
  }
  return !more;
}

async function clearMission(tx: Tx, keys: TenantKeys, { tenant, task_id: task }: TaskRecord): Promise<void> {
  const place = { tenant, task };
  const locks = await unlessCorrupt(() => readLocks(tx, keys, task));
  if (locks !== null) indexLocks(tx, keys, place, { before: locks, after: NO_LOCKS });
  const mailbox = await unlessCorrupt(() => readMailbox(tx, keys, task));
  if (mailbox !== null) indexMailbox(tx, place, { before: mailbox, after: EMPTY_MAILBOX });
  tx.clear(keys.mission(task));
  tx.clear(keys.activeMission(task));
  tx.clear(keys.missionLocks(task));
  tx.clearRange(keys.sorties(task));
  tx.clearRange(keys.mailboxRecords(task));
}

/** null: the record is damaged. The sweep of missions clears its entry in the index when it is due. */
async function unlessCorrupt<T>(read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}
