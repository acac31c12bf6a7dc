/**
 * The complete key layout of the database in one table.
 *
 * Keys are tuples (FoundationDB's tuple layer), the same bytes on every engine, so byte order is tuple order. Seed 000's
 * path `/coditect/checkpoints/{task_id}/{checkpoint_id}` is `("coditect", "checkpoints", task, checkpoint)`. The default
 * tenant's keys lie under `("coditect", …)`, another tenant's under `("coditect", "t", tenant, …)` in the same layout.
 * System-wide data (feed, outbox, leases) lies under `("coditect", "s", …)`.
 *
 * | key, after the tenant's root                      | value                                    | written by            |
 * |---------------------------------------------------|------------------------------------------|-----------------------|
 * | `checkpoints`, task, checkpoint                   | row: hash, body or number of chunks      | every command         |
 * | `versions`, task, checkpoint, version             | the row of an earlier version            | update, finalize, link|
 * | `chunks`, task, checkpoint, version, n            | part n of a large body                   | every command         |
 * | `ids`, checkpoint                                 | task                                     | create                |
 * | `order`, task, seq                                | checkpoint                               | create                |
 * | `tombstones`, task, seq                           | id, hash and removal of a checkpoint     | removals              |
 * | `tasks`, task                                     | the task's head                          | every command         |
 * | `children`, task, parent, child                   | empty                                    | create, link          |
 * | `audit`, task, seq                                | audit entry, chained by hash             | every transition      |
 * | `quarantine`, task, checkpoint, version           | reason, time                             | a read that failed    |
 * | `handoffs`, handoff                               | the record of a handoff                  | its transitions       |
 * | `task_handoffs`, task, handoff                    | empty                                    | the request           |
 * | `recovering`, task                                | empty; one for each recovery not `idle`  | its transitions       |
 * | `alert_acks`, alert                               | actor, time and note                     | alert_ack             |
 * | `tenant_audit`, seq                               | audit entry, chained by hash             | acts of operators     |
 * | `tenant_chain`                                    | seq and hash of the newest entry         | acts of operators     |
 * | `signatures`, task, seq                           | signature of the commit that ends there  | every transition      |
 * | `tenant_signatures`, seq                          | signature of the commit that ends there  | acts of operators     |
 * | `esignatures`, `esigned`, `signers`, `passkeys`, `sign_failures` | signatures of people: `evidence-keys.ts` | signature_add |
 * | `log`                                             | size, root and checkpoint of the log     | the audit log         |
 * | `log_tiles`, level, n                             | hashes of its Merkle tree                | the audit log         |
 * | `log_places`, task, seq                           | the entry's number in the log            | the audit log         |
 * | `tenant_log_places`, seq; `log_restores`, seq     | number in the log; states a restore      | the audit log; restore|
 * | `log_anchors`, target, size                       | checkpoint, time and proof of an anchor  | the anchors' job      |
 * | `access_blocks`, `_chain`, `_sessions`, `_tasks`  | the access log: `../access-log/access-keys.ts` | readers, writers|
 * | `sessions`, `session_folders`, `task_sessions`    | sessions: `../session/session-keys.ts`   | turn_event            |
 * | `missions`, task                                  | a mission                                | its transitions       |
 * | `active_missions`, task                           | empty; one for each mission in progress  | its transitions       |
 * | `sorties`, task, sortie                           | a part of a mission                      | its transitions       |
 * | `mission_locks`, task                             | the held files of a mission              | its transitions       |
 * | `agent_locks`, agent, task                        | empty; an agent holds or waits for files | its transitions       |
 * | `mission_messages`, task, kind, place             | the mailbox, and its messages in places  | its transitions       |
 * | `artifacts`, hash                                 | size, upload and times of an artifact    | artifact_commit       |
 * | `artifact_uploads`, upload                        | hash, size and state of an upload        | artifact_begin, commit|
 * | `artifact_references`, hash, task, checkpoint     | empty; keeps the artifact                | every command         |
 * | `checkpoint_artifacts`, task, checkpoint, hash    | empty; the same, by checkpoint           | every command         |
 * | `artifact_bytes`                                  | bytes of all artifacts and open uploads  | artifact_begin        |
 * | `idem`, command                                   | request hash, answer, check, commit stamp| every command         |
 * | `ix`, name, value, time, checkpoint               | the fields that a search filters by      | the indexer           |
 * | `text`, word (or its HMAC), step                  | the entries of the step that add the word| the indexer           |
 * | `posted`, step                                    | the step's checkpoints, by entry         | the indexer           |
 * | `dropped`, checkpoint                             | words of earlier versions only           | the indexer           |
 * | `data_keys`, task                                 | wrapped keys that encrypt a task's rows  | the first command     |
 * | `tenant_keys`                                     | the same, for rows that are of no task   | the first command     |
 *
 * | key, after the system's root                      | value                                    | written by            |
 * |---------------------------------------------------|------------------------------------------|-----------------------|
 * | `meta`, name                                      | layout version, incarnation, index state,| open, indexer, expiry,|
 * |                                                   | time of the newest expired commands,     | scrubber, writers     |
 * |                                                   | positions of the scrub, drafts and log   |                       |
 * | `feed`, incarnation, stamp                        | tenant, task, audit seq, checkpoint      | every transition      |
 * | `outbox`, partition, incarnation, stamp           | event or offer to publish                | every transition      |
 * | `bell`, partition                                 | counter; changes wake the relay          | every transition      |
 * | `expiry`, hour, tenant, command                   | empty; expiring idempotency records      | every command         |
 * | `retention`, day, tenant, task, checkpoint        | empty; of earlier versions               | no service            |
 * | `recovery_due`, time, tenant, task                | the agent type that it waits for         | its transitions       |
 * | `agent_lease`, tenant, task, fence                | agent, its type, end of the lease        | watchdogs             |
 * | `alert_ack_expiry`, day, tenant, alert            | empty; expiring acknowledgements         | alert_ack             |
 * | `session_expiry`, day, tenant, agent, session     | empty; expiring sessions                 | turn_event            |
 * | `handoff_due`, time, tenant, handoff              | empty; one for each open handoff         | its transitions       |
 * | `mission_due`, time, tenant, task, agent          | empty; locks or messages of it end       | its transitions       |
 * | `scrub`, tenant, task, finding                    | a finding                                | the scrubber          |
 * | `signing_keys`, key                               | public key, validity and revocation      | services, operators   |
 * | `log_due`, tenant                                 | newest act; it may not be in the log yet | acts of operators     |
 * | `log_behind`, tenant                              | its log is damaged, or chains are behind | the audit log         |
 * | `shreds`, state, tenant, task                     | empty; `certificate`; `late_messages`    | commands, the sweep   |
 * | `lease`, job                                      | holder, fence, end                       | background jobs       |
 * | `count`, name                                     | counter                                  | transitions, relay    |
 * | `bucket_keys`, tenant, generation                 | wrapped key that wraps data keys         | the first command     |
 * | `system_keys`                                     | wrapped keys for rows of the system      | open                  |
 * | `encryption`, job                                 | how far rows, and a rotation, are        | open, conversion      |
 */
import tuple from "fdb-tuple";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { type Bytes, type KeyRange, STAMP_BYTES } from "../../store/store.ts";
import { ACCESS_SUBSPACES, accessKeys } from "../access-log/access-keys.ts";
import { dataKeyKeys, encryptionKeys } from "../encryption/keys/encryption-keys.ts";
import { shredKeys } from "../retention/shred/shred-keys.ts";
import { SESSION_SUBSPACES, sessionKeys } from "../session/session-keys.ts";
import { artifactKeys } from "./artifact-keys.ts";
import { EVIDENCE_SUBSPACES, evidenceKeys } from "./evidence-keys.ts";
import { indexKeys } from "./index-keys.ts";
import {
  cached,
  children,
  element,
  endingNumber,
  formatUuid,
  name,
  number,
  parseTexts,
  UUID_BYTES,
  uuid,
} from "./key-elements.ts";
import { MISSION_SUBSPACES, missionKeys } from "./mission-keys.ts";

const TENANT_SUBSPACES = [
  "checkpoints",
  "versions",
  "chunks",
  "ids",
  "order",
  "tombstones",
  "tasks",
  "children",
  "audit",
  "quarantine",
  "handoffs",
  "task_handoffs",
  "recovering",
  "alert_acks",
  "tenant_audit",
  "tenant_chain",
  ...EVIDENCE_SUBSPACES,
  ...ACCESS_SUBSPACES,
  ...SESSION_SUBSPACES,
  ...MISSION_SUBSPACES,
  "artifacts",
  "artifact_uploads",
  "artifact_references",
  "checkpoint_artifacts",
  "artifact_bytes",
  "idem",
  "ix",
  "text",
  "posted",
  "dropped",
  "data_keys",
  "tenant_keys",
] as const;
const SYSTEM_SUBSPACES = [
  "meta",
  "feed",
  "outbox",
  "bell",
  "expiry",
  "retention",
  "alert_ack_expiry",
  "session_expiry",
  "handoff_due",
  "recovery_due",
  "agent_lease",
  "mission_due",
  "scrub",
  "signing_keys",
  "log_due",
  "log_behind",
  "shreds",
  "lease",
  "count",
  "bucket_keys",
  "system_keys",
  "encryption",
] as const;
type TenantSubspace = (typeof TENANT_SUBSPACES)[number];
type SystemSubspace = (typeof SYSTEM_SUBSPACES)[number];
export type Subspace = TenantSubspace | SystemSubspace;

const ROOT = "coditect";
/** The tuple type code that precedes the 12 bytes of a versionstamp. */
const STAMP_CODE = Buffer.from([0x33]);
const STAMP_ELEMENT_BYTES = 13;

/** Every key begins with it. */
export const KEYS_ROOT = tuple.pack([ROOT]) as Buffer;
const tenantRoot = cached<string>((tenant) =>
  tenant === DEFAULT_TENANT ? KEYS_ROOT : (tuple.pack([ROOT, "t", tenant]) as Buffer),
);
const systemRoot = tuple.pack([ROOT, "s"]) as Buffer;

/** More than these are made again when they are needed. */
const TENANTS_MAX = 10_000;
const tenants = new Map<string, TenantKeys>();

/** The keys of one tenant. */
export function tenantKeys(tenant: string): TenantKeys {
  const known = tenants.get(tenant);
  if (known) return known;
  if (tenants.size >= TENANTS_MAX) tenants.clear();
  const keys = keysUnder(tenantRoot(tenant));
  tenants.set(tenant, keys);
  return keys;
}

function keysUnder(root: Buffer) {
  const at = (subspace: TenantSubspace, ...parts: Buffer[]) =>
    Buffer.concat([root, name(subspace), ...parts]);
  return {
    checkpoint: (task: string, id: string): Bytes => at("checkpoints", name(task), uuid(id)),
    version: (task: string, id: string, version: number): Bytes =>
      at("versions", name(task), uuid(id), number(version)),
    versions: (task: string, id: string): KeyRange => children(at("versions", name(task), uuid(id))),
    chunk: (task: string, id: string, version: number, n: number): Bytes =>
      at("chunks", name(task), uuid(id), number(version), number(n)),
    chunks: (task: string, id: string): KeyRange => children(at("chunks", name(task), uuid(id))),
    id: (id: string): Bytes => at("ids", uuid(id)),
    order: (task: string, seq: number): Bytes => at("order", name(task), number(seq)),
    orderRange: (task: string): KeyRange => children(at("order", name(task))),
    tombstone: (task: string, seq: number): Bytes => at("tombstones", name(task), number(seq)),
    tombstones: (task: string): KeyRange => children(at("tombstones", name(task))),
    task: (task: string): Bytes => at("tasks", name(task)),
    tasks: (): KeyRange => children(at("tasks")),
    /**
     * The keys of all tasks after `task` in a subspace that begins with a task; null: the keys of all tasks.
     */
    ofTasksAfter: (subspace: "tasks" | "order" | "audit", task: string | null): KeyRange => {
      const { begin, end } = children(at(subspace));
      return { begin: task === null ? begin : children(at(subspace, name(task))).end, end };
    },
    /** All keys of a task in a subspace that begins with one. */
    ofTask: (subspace: TenantSubspace, task: string): KeyRange => children(at(subspace, name(task))),
    child: (task: string, parent: string, id: string): Bytes =>
      at("children", name(task), uuid(parent), uuid(id)),
    children: (task: string): KeyRange => children(at("children", name(task))),
    childrenOf: (task: string, parent: string): KeyRange =>
      children(at("children", name(task), uuid(parent))),
    audit: (task: string, seq: number): Bytes => at("audit", name(task), number(seq)),
    auditRange: (task: string): KeyRange => children(at("audit", name(task))),
    quarantine: (task: string, id: string, version: number): Bytes =>
      at("quarantine", name(task), uuid(id), number(version)),
    quarantines: (task: string): KeyRange => children(at("quarantine", name(task))),
    handoff: (id: string): Bytes => at("handoffs", uuid(id)),
    handoffs: (): KeyRange => children(at("handoffs")),
    taskHandoff: (task: string, id: string): Bytes => at("task_handoffs", name(task), uuid(id)),
    taskHandoffs: (task: string): KeyRange => children(at("task_handoffs", name(task))),
    recovering: (task: string): Bytes => at("recovering", name(task)),
    recoveringTasks: (): KeyRange => children(at("recovering")),
    alertAck: (id: string): Bytes => at("alert_acks", element(id)),
    tenantAudit: (seq: number): Bytes => at("tenant_audit", number(seq)),
    tenantAudits: (): KeyRange => children(at("tenant_audit")),
    tenantChain: (): Bytes => at("tenant_chain"),
    ...sessionKeys(at),
    ...missionKeys(at),
    ...artifactKeys(at),
    ...evidenceKeys(at),
    ...accessKeys(at),
    command: (id: string): Bytes => at("idem", uuid(id)),
    commands: (): KeyRange => children(at("idem")),
    ...indexKeys(at),
    ...dataKeyKeys(at),
  };
}

export type TenantKeys = ReturnType<typeof keysUnder>;

const at = (subspace: SystemSubspace, ...parts: Buffer[]): Buffer =>
  Buffer.concat([systemRoot, name(subspace), ...parts]);

/** The keys of a subspace that begins with a time. */
const before = (subspace: SystemSubspace, timeMs: number): KeyRange => ({
  begin: children(at(subspace)).begin,
  end: at(subspace, element(timeMs)),
});

/** The keys of system-wide data. */
export const systemKeys = {
  meta: (name: string): Bytes => at("meta", element(name)),
  /** The part before the stamp, for `setStampedKey`. */
  feedPrefix: (incarnation: number): Bytes => at("feed", number(incarnation), STAMP_CODE),
  feedRange: (): KeyRange => children(at("feed")),
  outboxPrefix: (partition: number, incarnation: number): Bytes =>
    at("outbox", number(partition), number(incarnation), STAMP_CODE),
  outboxRange: (partition: number): KeyRange => children(at("outbox", number(partition))),
  wakeUp: (partition: number): Bytes => at("bell", number(partition)),
  expiry: (hour: number, tenant: string, command: string): Bytes =>
    at("expiry", number(hour), name(tenant), uuid(command)),
  expiredBefore: (hour: number): KeyRange => ({
    begin: children(at("expiry")).begin,
    end: at("expiry", number(hour)),
  }),
  retention: (day: number, tenant: string, task: string, id: string): Bytes =>
    at("retention", number(day), name(tenant), name(task), uuid(id)),
  alertAckExpiry: (day: number, tenant: string, alert: string): Bytes =>
    at("alert_ack_expiry", number(day), name(tenant), element(alert)),
  alertAcksExpiredBefore: (day: number): KeyRange => ({
    begin: children(at("alert_ack_expiry")).begin,
    end: at("alert_ack_expiry", number(day)),
  }),
  sessionExpiry: (day: number, tenant: string, agent: string, session: string): Bytes =>
    at("session_expiry", number(day), name(tenant), name(agent), name(session)),
  sessionsExpiredBefore: (day: number): KeyRange => ({
    begin: children(at("session_expiry")).begin,
    end: at("session_expiry", number(day)),
  }),
  handoffDue: (dueMs: number, tenant: string, id: string): Bytes =>
    at("handoff_due", element(dueMs), name(tenant), uuid(id)),
  handoffsDueBefore: (dueMs: number): KeyRange => before("handoff_due", dueMs),
  recoveryDue: (dueMs: number, tenant: string, task: string): Bytes =>
    at("recovery_due", element(dueMs), name(tenant), name(task)),
  recoveriesDueBefore: (dueMs: number): KeyRange => before("recovery_due", dueMs),
  /** `agent` empty: a time that the mission itself has set. */
  missionDue: (dueMs: number, tenant: string, task: string, agent: string): Bytes =>
    at("mission_due", element(dueMs), name(tenant), name(task), element(agent)),
  missionsDueBefore: (dueMs: number): KeyRange => before("mission_due", dueMs),
  agentLease: (tenant: string, task: string, fence: number): Bytes =>
    at("agent_lease", name(tenant), name(task), number(fence)),
  agentLeases: (): KeyRange => children(at("agent_lease")),
  finding: (tenant: string, task: string, finding: string): Bytes =>
    at("scrub", name(tenant), name(task), element(finding)),
  /** null: the findings of all tenants. */
  findings: (tenant: string | null): KeyRange =>
    children(tenant === null ? at("scrub") : at("scrub", name(tenant))),
  signingKey: (id: string): Bytes => at("signing_keys", name(id)),
  signingKeys: (): KeyRange => children(at("signing_keys")),
  logDue: (tenant: string): Bytes => at("log_due", name(tenant)),
  logsDue: (): KeyRange => children(at("log_due")),
  logBehind: (tenant: string): Bytes => at("log_behind", name(tenant)),
  logsBehind: (): KeyRange => children(at("log_behind")),
  ...shredKeys(at),
  ...encryptionKeys(at),
  lease: (job: string): Bytes => at("lease", name(job)),
  count: (name: string): Bytes => at("count", element(name)),
} as const;

/** The position in a feed or outbox key: its stamp and order, 12 bytes that grow with every commit. */
export function stampOf(key: Bytes): Bytes {
  return key.subarray(key.length - STAMP_ELEMENT_BYTES + 1);
}

/** The feed entries of the transaction that wrote an outbox entry. */
export function feedAtStampOf(outboxKey: Bytes): KeyRange {
  const before = outboxKey.subarray(0, outboxKey.length - STAMP_ELEMENT_BYTES);
  const incarnation = (tuple.unpack(Buffer.from(before)) as unknown[]).at(-1) as number;
  const stamp = stampOf(outboxKey).subarray(0, STAMP_BYTES);
  const begin = Buffer.concat([systemKeys.feedPrefix(incarnation), stamp]);
  return { begin, end: Buffer.concat([begin, Buffer.from([0xff, 0xff, 0xff])]) };
}

const leasePrefixBytes = at("agent_lease").length;

/**
 * Reads tenant, task and fence out of an `agent_lease` key. Watchdogs read the leases of all agents every few
 * seconds, and the library takes most of that time for text, so it decodes only the rest.
 */
export function parseAgentLease(key: Bytes): { tenant: string; task: string; fence: number } {
  const { texts, end } = parseTexts(key, leasePrefixBytes, 2);
  const [fence] = tuple.unpack(Buffer.from(key.subarray(end))) as [number];
  return { tenant: texts[0]!, task: texts[1]!, fence };
}

/** Reads the name at the end of a key: the task of a `recovering` or `active_missions` key, the sortie of a sortie's key. */
export function endingName(key: Bytes): string {
  return (tuple.unpack(Buffer.from(key)) as unknown[]).at(-1) as string;
}

/** Reads the id at the end of a key: the checkpoint of an index entry, the handoff of a handoff key. */
export function endingId(key: Bytes): string {
  return formatUuid(key.subarray(key.length - UUID_BYTES));
}

/** Reads the number at the end of a key: the seq of an audit or order entry, the step of a word. */
export function parseSeq(key: Bytes): number {
  return endingNumber(key) ?? ((tuple.unpack(Buffer.from(key)) as unknown[]).at(-1) as number);
}

/** Reads the task out of a tenant's key that begins with one. */
export function parseTask(key: Bytes): string {
  const elements = tuple.unpack(Buffer.from(key)) as unknown[];
  return elements[elements[1] === "t" ? 4 : 2] as string;
}

/** The smallest key that is greater than `key`. */
export function after(key: Bytes): Bytes {
  return Buffer.concat([key, Buffer.from([0x00])]);
}
