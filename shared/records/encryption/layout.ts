/**
 * Which rows are encrypted, and with whose key. A key space that is not named here is a type error.
 *
 * Keys stay clear, because the engine orders by them: they are made of ids, names, numbers and times. The words of the search index are the
 * exception, and are blinded (`blind-words.ts`). Rows of a task's content are encrypted with the key of the task, which shredding destroys. What stays
 * after shredding is encrypted with the key of the tenant.
 */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes } from "../../store/store.ts";
import { KEYS_ROOT, type Subspace } from "../kv/keyspace.ts";
import { type KeyPlace, keyPlaceOf, SYSTEM_PLACE } from "./keys/place.ts";

type Cover =
  /** With the key of the task that the key names first. */
  | "task"
  | "tenant"
  | "system"
  /** As `system`. The key ends with a stamp, which the writer does not know, so it is no part of the address. */
  | "system_stamped"
  /** Not encrypted, for this reason. */
  | { readonly clear: string };

const EMPTY = { clear: "has no value" };
const IDS = { clear: "ids, positions and numbers" };
const COUNTER = { clear: "the engine adds to it" };
const PROOF = { clear: "hashes and signatures, which auditors receive" };
const WRAPPED = { clear: "its keys are wrapped" };

export const ENCRYPTED: Readonly<Record<Subspace, Cover>> = {
  checkpoints: "task",
  versions: "task",
  chunks: "task",
  ids: IDS,
  order: "task",
  tombstones: "tenant",
  tasks: "task",
  children: EMPTY,
  audit: "tenant",
  quarantine: "tenant",
  handoffs: "tenant",
  task_handoffs: EMPTY,
  recovering: EMPTY,
  alert_acks: "tenant",
  tenant_audit: "tenant",
  tenant_chain: PROOF,
  signatures: PROOF,
  tenant_signatures: PROOF,
  esignatures: "tenant",
  esigned: IDS,
  signers: "tenant",
  passkeys: "tenant",
  sign_failures: { clear: "times" },
  log: PROOF,
  log_tiles: PROOF,
  log_places: IDS,
  tenant_log_places: IDS,
  log_anchors: PROOF,
  log_restores: IDS,
  access_blocks: "tenant",
  access_chain: IDS,
  access_sessions: IDS,
  access_tasks: EMPTY,
  sessions: "tenant",
  session_folders: "tenant",
  task_sessions: EMPTY,
  missions: "task",
  active_missions: EMPTY,
  sorties: "task",
  mission_locks: "task",
  agent_locks: EMPTY,
  mission_messages: "task",
  artifacts: "tenant",
  artifact_uploads: "tenant",
  artifact_references: EMPTY,
  checkpoint_artifacts: EMPTY,
  artifact_bytes: IDS,
  idem: "tenant",
  ix: { clear: "names, states and times, as in its key: searches filter by them" },
  text: { clear: "numbers; the word in its key is blinded" },
  posted: IDS,
  dropped: "tenant",
  data_keys: WRAPPED,
  tenant_keys: WRAPPED,
  meta: { clear: "positions and versions, read before any key" },
  feed: IDS,
  outbox: "system_stamped",
  bell: COUNTER,
  expiry: EMPTY,
  retention: EMPTY,
  alert_ack_expiry: EMPTY,
  session_expiry: EMPTY,
  handoff_due: EMPTY,
  recovery_due: { clear: "a type of agent" },
  agent_lease: { clear: "names of an agent and its type, and a time" },
  mission_due: EMPTY,
  scrub: "system",
  signing_keys: { clear: "public keys and their validity, which auditors receive" },
  log_due: IDS,
  log_behind: IDS,
  shreds: "system",
  lease: { clear: "the name of a process, and a time" },
  count: COUNTER,
  bucket_keys: WRAPPED,
  system_keys: WRAPPED,
  encryption: "system",
};

/** A row that is encrypted. */
export interface Placed {
  readonly place: KeyPlace;
  /** What the row's bytes are bound to: they do not decrypt at another address. */
  readonly address: Bytes;
}

/** null: the row stays clear. */
export type Layout = (key: Bytes) => Placed | null;

/** A stamp and the order after it. */
const STAMP_END_BYTES = 12;
/** Behind each text in a key. */
const END = "\0";
const COVERS: ReadonlyMap<string, Cover> = new Map(Object.entries(ENCRYPTED));

/**
 * Every row of a transaction passes here, so the key is read as one text with a character for each byte, not element by
 * element. Texts in keys are tokens, which have no other characters than ASCII.
 */
export const fleetLayout: Layout = (key) => {
  if (!isOfFleet(key)) return null;
  const text = Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1", KEYS_ROOT.length);
  let end = text.indexOf(END);
  let subspace = text.slice(1, end);
  const isSystem = subspace === "s";
  let tenant: string = DEFAULT_TENANT;
  if (subspace === "t") {
    const from = end + 2;
    end = text.indexOf(END, from);
    tenant = text.slice(from, end);
  }
  if (isSystem || tenant !== DEFAULT_TENANT) {
    const from = end + 2;
    end = text.indexOf(END, from);
    subspace = text.slice(from, end);
  }
  const cover = COVERS.get(subspace);
  if (cover === undefined || typeof cover === "object") return null;
  if (cover === "system") return { place: SYSTEM_PLACE, address: key };
  if (cover === "system_stamped")
    return { place: SYSTEM_PLACE, address: key.subarray(0, key.length - STAMP_END_BYTES) };
  if (cover === "tenant") return { place: keyPlaceOf(tenant, null), address: key };
  return { place: taskPlace(text, { tenant, end }), address: key };
};

function taskPlace(
  text: string,
  { tenant, end }: { readonly tenant: string; readonly end: number },
): KeyPlace {
  const from = end + 2;
  const to = text.indexOf(END, from);
  return keyPlaceOf(tenant, text.slice(from, to));
}

function isOfFleet(key: Bytes): boolean {
  const { length } = KEYS_ROOT;
  if (key.length <= length) return false;
  for (let i = 0; i < length; i += 1) if (key[i] !== KEYS_ROOT[i]) return false;
  return true;
}
