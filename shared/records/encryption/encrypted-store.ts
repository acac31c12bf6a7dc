/**
 * A store whose rows are encrypted on the disk, over any engine. Everything above it reads and writes plain rows. What it encrypts, and with which key, is
 * in `layout.ts`.
 */
import { sameBytes } from "../../store/same-bytes.ts";
import {
  type Bytes,
  type CommitResult,
  type Store,
  StoreError,
  type TransactOptions,
  type Tx,
} from "../../store/store.ts";
import { readable } from "../kv/codec.ts";
import { EncryptedReader, type Encryption } from "./encrypted-reader.ts";
import { EncryptedTx } from "./encrypted-tx.ts";
import { dataKeysKey, idsOfRow } from "./keys/key-record.ts";
import type { KeyRing } from "./keys/key-ring.ts";
import { type KeyPlace, keyPlaceOf } from "./keys/place.ts";
import { fleetLayout, type Layout } from "./layout.ts";
import { RecentValues } from "./recent-values.ts";

/** Runs that missed only keys which an earlier run has loaded: they are lost again only when other transactions change them all the time. */
const REPEATS_MAX = 10;
/** Places whose keys are loaded for one transaction. */
const MISSED_MAX = 1_000;

/** `isConverted`: the record said that every row is encrypted. */
export function encryptedStore(
  store: Store,
  ring: KeyRing,
  {
    layout = fleetLayout,
    isConverted = false,
  }: { readonly layout?: Layout; readonly isConverted?: boolean } = {},
): Store {
  const encryption: Encryption = { ring, layout, recent: new RecentValues(), isConverted };
  const { clusterStatus } = store;
  return {
    name: store.name,
    transact: (options, body) => transactEncrypted(store, encryption, options, body),
    read: (options, body) => store.read(options, (reader) => body(new EncryptedReader(reader, encryption))),
    changed: (key, lastSeen, options) => waitForChange(store, encryption, { key, lastSeen }, options),
    health: (options) => store.health(options),
    ...(clusterStatus !== undefined && { clusterStatus: (options) => clusterStatus.call(store, options) }),
    close: (options) => store.close(options),
  };
}

/**
 * Destroys the keys of a task, and with them what they encrypted, in every copy of the rows that has not the keys too. Returns their ids in hex; none if
 * the store is not encrypted.
 */
export async function destroyDataKeys(tx: Tx, tenant: string, task: string): Promise<readonly string[]> {
  if (!(tx instanceof EncryptedTx)) return [];
  const place = keyPlaceOf(tenant, task);
  const row = await tx.get(dataKeysKey(place));
  tx.destroyKeys(place);
  return row === undefined ? [] : (readable(() => idsOfRow(row)) ?? []);
}

/** Runs that only loaded keys are no attempts: they neither count as conflicts nor wait. */
async function transactEncrypted<T>(
  store: Store,
  encryption: Encryption,
  options: TransactOptions,
  body: (tx: Tx) => Promise<T>,
): Promise<CommitResult<T>> {
  const endsAt = performance.now() + options.deadlineMs;
  // Other transactions may make the process forget keys again, so what earlier runs missed is loaded for each.
  const missed = new Map<string, KeyPlace>();
  let repeats = 0;
  for (let run = 1; ; run += 1) {
    let last: EncryptedTx | undefined;
    try {
      const left = run === 1 ? options : { ...options, deadlineMs: Math.max(1, endsAt - performance.now()) };
      const result = await store.transact(left, async (tx) => {
        const attempt = new EncryptedTx(tx, encryption);
        last = attempt;
        await attempt.begin(missed.values());
        const value = await body(attempt);
        await attempt.finish();
        return value;
      });
      last?.committed();
      return result;
    } catch (error) {
      // A further run would have forgotten that this one may have taken effect.
      if (error instanceof StoreError && error.committed !== "no") throw error;
      const before = missed.size;
      for (const [id, place] of last?.missing ?? []) missed.set(id, place);
      if (missed.size === before) repeats += 1;
      if (!last?.missing.size || repeats === REPEATS_MAX || missed.size > MISSED_MAX) throw error;
    }
    const left = { ...options, deadlineMs: endsAt - performance.now() };
    await within(left, Promise.all([...missed.values()].map((place) => encryption.ring.prepare(place))));
  }
}

/** A service of keys that does not answer must not hold the caller. */
async function within<T>({ deadlineMs, label, signal }: TransactOptions, work: Promise<T>): Promise<T> {
  let release = () => {};
  const over = new Promise<never>((_, reject) => {
    const end = (kind: "deadline" | "aborted") => {
      const details = { label };
      reject(new StoreError(kind, "the keys of the encryption were not loaded in time", { details }));
    };
    const abort = () => end("aborted");
    const timer = setTimeout(() => end("deadline"), Math.max(0, deadlineMs));
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) abort();
    release = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
  });
  try {
    return await Promise.race([work, over]);
  } finally {
    release();
    work.catch(() => {});
  }
}

const LOOK = { label: "look_for_change", deadlineMs: 5_000 } as const;

/** The engine compares what is stored, so the stored bytes are compared in plain first. */
async function waitForChange(
  store: Store,
  encryption: Encryption,
  { key, lastSeen }: { readonly key: Bytes; readonly lastSeen: Bytes | undefined },
  options: { readonly signal: AbortSignal; readonly pollMs: number },
): Promise<void> {
  if (encryption.layout(key) === null || options.signal.aborted) return store.changed(key, lastSeen, options);
  const { stored, plain } = await store.read(LOOK, async (reader) => ({
    stored: await reader.get(key),
    plain: await new EncryptedReader(reader, encryption).get(key),
  }));
  if (!sameBytes(plain, lastSeen)) return;
  await store.changed(key, stored, options).catch((error: unknown) => {
    // It was open when the wait began, and its end ends the wait.
    if (!(error instanceof StoreError) || error.kind !== "closed") throw error;
  });
}
