/** Opens a store as encrypted, or refuses to: a service without the keys would take encrypted rows for damaged ones, and write plain ones beside them. */
import type { KeyEncryptionKeys } from "../../integrity/encryption/key-encryption-key.ts";
import { FleetError } from "../../protocol/errors.ts";
import { type Bytes, type Reader, type Store, StoreError, type TransactOptions } from "../../store/store.ts";
import { encodeChecked } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { newestAct, requireUnstated } from "./conversion-statement.ts";
import { encryptedStore } from "./encrypted-store.ts";
import { type EncryptionState, findConversion } from "./encryption-state.ts";
import { parseBucketKey } from "./keys/encryption-keys.ts";
import { KeyRing, type KeyRingOptions } from "./keys/key-ring.ts";
import { SYSTEM_PLACE } from "./keys/place.ts";
import { sealValue } from "./sealed-value.ts";

const WRITE = {
  label: "open_encryption",
  deadlineMs: 10_000,
  onUnknown: "safe",
} as const satisfies TransactOptions;

export interface OpenedEncryption {
  readonly store: Store;
  readonly ring: KeyRing;
}

/** Throws CONFLICT if the store is encrypted. */
export async function requirePlainStore(store: Store): Promise<void> {
  if (!(await isEncrypted(store))) return;
  throw new FleetError("CONFLICT", "the store is encrypted, and no root key of the encryption is set", {
    details: {
      setting: "FLEET_ENCRYPTION_KEY",
      next: "set FLEET_ENCRYPTION_KEY as for the services that wrote the store",
    },
  });
}

export function isEncrypted(store: Store): Promise<boolean> {
  return store.read(WRITE, async (reader) => (await readTraces(reader)) !== "none");
}

/**
 * The store with encrypted rows. One that has plain rows is encrypted from now on, and its rows are converted in the background. Throws StoreError
 * `unavailable` while the root keys cannot be used or one is not there, CORRUPT if rows of the encryption are missing, were changed or are
 * older copies.
 */
export async function openEncryption(
  store: Store,
  roots: KeyEncryptionKeys,
  options: KeyRingOptions = {},
): Promise<OpenedEncryption> {
  const ring = new KeyRing(store, roots, options);
  const traces = await store.read(WRITE, readTraces);
  if (traces === "incomplete") throw lostRecords();
  if (traces !== "complete") await begin(store, ring);
  if ((await ring.find(SYSTEM_PLACE)) === null) throw lostRecords();
  const conversion = await store.read(WRITE, (reader) => findConversion(reader, ring));
  const opened = encryptedStore(store, ring, { isConverted: conversion === "complete" });
  if (conversion === "converting") await opened.read(WRITE, requireUnstated);
  return { store: opened, ring };
}

/**
 * `begun`: only a bucket key of the system, as after a kill during the first opening. `incomplete`: tenants have keys, and the records of the system
 * are gone, so another program removed them.
 */
async function readTraces(reader: Reader): Promise<"none" | "begun" | "complete" | "incomplete"> {
  const records = [systemKeys.systemDataKeys(), systemKeys.encryption()];
  const found = (await reader.getMany(records)).filter((value) => value !== undefined).length;
  if (found === records.length) return "complete";
  const { rows } = await reader.getRange(systemKeys.bucketKeys(), { limit: 1, reverse: true });
  const last = rows[0];
  if (found > 0) return "incomplete";
  if (last === undefined) return "none";
  // The bucket keys of the system are the first.
  return parseBucketKey(last.key).tenant === null ? "begun" : "incomplete";
}

/** The keys of the system and the record of the encryption are written at once, so neither is without the other. */
async function begin(store: Store, ring: KeyRing): Promise<void> {
  await ring.buckets.loadOrMake(SYSTEM_PLACE);
  await store.transact(WRITE, async (tx) => {
    const keys: Bytes = systemKeys.systemDataKeys();
    // Another service was first.
    if ((await tx.get(keys)) !== undefined) return;
    const made = ring.fresh(SYSTEM_PLACE);
    if (made === null) throw new StoreError("throttled", "the bucket key was forgotten in the meantime");
    const hasRows = (await tx.get(systemKeys.meta("format"))) !== undefined;
    const acts = hasRows ? await newestAct(tx.snapshot) : 0;
    tx.set(keys, made.row);
    const key = systemKeys.encryption();
    tx.set(key, sealValue(made.keys.newest, encodeChecked(firstState(hasRows, acts)), key));
  });
}

function firstState(hasRows: boolean, acts: number): EncryptionState {
  const began_at = new Date().toISOString();
  const about = { began_at, done: null, converted: 0, found: 0, rotations: 0, rotated: 0, acts };
  return hasRows
    ? { ...about, state: "converting", completed_at: null }
    : { ...about, state: "complete", completed_at: began_at };
}

function lostRecords(): FleetError {
  return new FleetError("CORRUPT", "records of the store's encryption are missing, or were changed", {
    details: { next: "restore the store from a backup" },
  });
}
