/**
 * Signs the entries that one transaction appends to chains, in that transaction. An entry names the key that signs
 * it, and the chain covers that name, so a signature that is removed later is missed.
 */
import type { SignedVersion } from "../../integrity/commit-signature.ts";
import type { SigningKey } from "../../integrity/dsse.ts";
import { type LogCheckpoint, signCheckpoint } from "../../integrity/merkle/note.ts";
import { groupBy } from "../../protocol/group-by.ts";
import type { Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { signTogether } from "./signature-batches.ts";
import { encodeSignature } from "./signature-record.ts";

interface AppendedEntry {
  readonly tenant: string;
  /** null: the chain of the tenant. */
  readonly task: string | null;
  readonly seq: number;
  readonly hash: string;
  readonly at: string;
  /** The version that it made. */
  readonly checkpoint: SignedVersion | null;
}

interface Signing {
  /** null: the service has none, and only what it appends is noted. */
  readonly key: SigningKey | null;
  readonly entries: AppendedEntry[];
  hasCheckpoint: boolean;
  /** The latest time that was noted of its entries. */
  latestMs: number;
}

/** Of the transactions of services. */
const signings = new WeakMap<Tx, Signing>();

export function beginSigning(tx: Tx, key: SigningKey | null): void {
  signings.set(tx, { key, entries: [], hasCheckpoint: false, latestMs: Number.NEGATIVE_INFINITY });
}

/** The member of an entry that names its key; none if the transaction is not signed. */
export function signedBy(tx: Tx): { readonly signed_by?: string } {
  const key = signings.get(tx)?.key ?? null;
  return key === null ? {} : { signed_by: key.id };
}

export function noteEntry(tx: Tx, entry: AppendedEntry): void {
  signings.get(tx)?.entries.push(entry);
}

/** Notes a time before which verifications do not judge an entry as written: that of the entry before it, or its own if that may be ahead of the clock. */
export function noteTime(tx: Tx, at: string): void {
  const signing = signings.get(tx);
  if (signing === undefined) return;
  const ms = Date.parse(at);
  // False for a time that cannot be read.
  if (ms > signing.latestMs) signing.latestMs = ms;
}

/** The latest time that was noted of the entries of the transaction, in milliseconds since the epoch. */
export function latestTimeIn(tx: Tx): number {
  return signings.get(tx)?.latestMs ?? Number.NEGATIVE_INFINITY;
}

/** The earliest time of the entries of the transaction, in milliseconds since the epoch. */
export function earliestTimeIn(tx: Tx): number {
  return Math.min(...(signings.get(tx)?.entries ?? []).map(({ at }) => Date.parse(at)));
}

/** Signs the checkpoint of a log that the transaction has made longer. null: the transaction is not signed. */
export function signLog(tx: Tx, checkpoint: LogCheckpoint): string | null {
  const signing = signings.get(tx);
  if (signing === undefined || signing.key === null) return null;
  signing.hasCheckpoint = true;
  return signCheckpoint(signing.key, checkpoint);
}

/** Signs a statement of the transaction, for the purpose that the type names. null: the transaction is not signed. */
export function signWith(
  tx: Tx,
  payloadType: string,
  payload: Uint8Array,
): { readonly keyId: string; readonly signature: Uint8Array } | null {
  const signing = signings.get(tx);
  if (signing === undefined || signing.key === null) return null;
  signing.hasCheckpoint = true;
  return { keyId: signing.key.id, signature: signing.key.sign(payloadType, payload) };
}

/** Whether the transaction has appended something that a key must sign, which must then be in use. */
export function needsKey(tx: Tx): boolean {
  const { entries = [], hasCheckpoint = false } = signings.get(tx) ?? {};
  return hasCheckpoint || entries.length > 0;
}

/** Writes one signature for each chain. Returns their number. */
export async function writeSignatures(tx: Tx): Promise<number> {
  const { key = null, entries: appended = [] } = signings.get(tx) ?? {};
  if (key === null) return 0;
  // Nearly every transaction appends one.
  if (appended.length === 1) {
    await writeSignature(tx, key, appended);
    return 1;
  }
  const chains = groupBy(appended, ({ tenant, task }) => `${tenant}/${task ?? ""}`);
  await Promise.all([...chains.values()].map((entries) => writeSignature(tx, key, entries)));
  return chains.size;
}

async function writeSignature(tx: Tx, key: SigningKey, entries: readonly AppendedEntry[]): Promise<void> {
  const [first, last] = [entries[0]!, entries.at(-1)!];
  const { tenant, task } = first;
  const signature = await signTogether(key, {
    at: last.at,
    checkpoints: entries.flatMap(({ checkpoint }) => checkpoint ?? []),
    entries: entries.map(({ hash }) => hash),
    first: first.seq,
    task,
    tenant,
  });
  tx.set(tenantKeys(tenant).signature(task, last.seq), encodeSignature(signature));
}
