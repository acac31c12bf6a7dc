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
const END = 0;
/** The names of the parts of a store that hold key spaces themselves. */
const SYSTEM = "s".charCodeAt(0);
const TENANT = "t".charCodeAt(0);

interface NamedCover {
  readonly name: Buffer;
  readonly cover: Cover;
}

/** By the hash of the name. */
const COVERS = coversByHash();

function coversByHash(): ReadonlyMap<number, NamedCover> {
  const named = Object.entries(ENCRYPTED).map(([name, cover]) => ({ name: Buffer.from(name), cover }));
  const byHash = new Map(named.map((one) => [hashOf(one.name, 0, one.name.length), one] as const));
  if (byHash.size < named.length) throw new RangeError("two key spaces have the same hash");
  return byHash;
}

function hashOf(bytes: Bytes, from: number, to: number): number {
  let hash = 0;
  for (let i = from; i < to; i += 1) hash = (Math.imul(hash, 31) + bytes[i]!) | 0;
  return hash;
}

function isAt(key: Bytes, from: number, to: number, name: Bytes): boolean {
  if (to - from !== name.length) return false;
  for (let i = 0; i < name.length; i += 1) if (key[from + i] !== name[i]) return false;
  return true;
}

/** Where the text that begins here ends. */
function endOf(key: Bytes, from: number): number {
  let end = from;
  while (end < key.length && key[end] !== END) end += 1;
  return end;
}

/**
 * Every row of a transaction passes here, so the key is read byte by byte: a text of it takes longer, and no part but the task is needed as one. Texts in keys
 * are tokens, which have no other characters than ASCII.
 */
export const fleetLayout: Layout = (key) => {
  if (!isOfFleet(key)) return null;
  let from = KEYS_ROOT.length + 1;
  let end = endOf(key, from);
  const letter = end === from + 1 ? key[from] : undefined;
  let tenant: string = DEFAULT_TENANT;
  if (letter === TENANT) {
    from = end + 2;
    end = endOf(key, from);
    tenant = textAt(key, from, end);
  }
  if (letter === SYSTEM || tenant !== DEFAULT_TENANT) {
    from = end + 2;
    end = endOf(key, from);
  }
  const found = COVERS.get(hashOf(key, from, end));
  if (found === undefined || typeof found.cover === "object" || !isAt(key, from, end, found.name))
    return null;
  const { cover } = found;
  if (cover === "system") return { place: SYSTEM_PLACE, address: key };
  if (cover === "system_stamped")
    return { place: SYSTEM_PLACE, address: key.subarray(0, key.length - STAMP_END_BYTES) };
  if (cover === "tenant") return { place: keyPlaceOf(tenant, null), address: key };
  return { place: taskPlace(key, tenant, end + 2), address: key };
};

interface NamedPlace {
  readonly tenant: string;
  readonly task: Buffer;
  readonly place: KeyPlace;
}

/** A power of two. */
const SLOTS = 8_192;
/** By a part of the task's hash: the place that was looked up last. */
const places: (NamedPlace | undefined)[] = new Array(SLOTS).fill(undefined);

function taskPlace(key: Bytes, tenant: string, from: number): KeyPlace {
  const end = endOf(key, from);
  const slot = hashOf(key, from, end) & (SLOTS - 1);
  const known = places[slot];
  if (known !== undefined && known.tenant === tenant && isAt(key, from, end, known.task)) return known.place;
  const place = keyPlaceOf(tenant, textAt(key, from, end));
  places[slot] = { tenant, task: Buffer.from(key.subarray(from, end)), place };
  return place;
}

function textAt(key: Bytes, from: number, end: number): string {
  return Buffer.from(key.buffer, key.byteOffset + from, end - from).toString("latin1");
}

function isOfFleet(key: Bytes): boolean {
  const { length } = KEYS_ROOT;
  if (key.length <= length) return false;
  for (let i = 0; i < length; i += 1) if (key[i] !== KEYS_ROOT[i]) return false;
  return true;
}
