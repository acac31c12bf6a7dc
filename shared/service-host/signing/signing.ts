/**
 * The signing key of a service: read from its file, registered in the store, and followed in both. A rotation, a revocation and a replaced file take
 * effect without a restart. Several processes may share one file.
 */
import { join } from "node:path";
import type { SigningKey } from "../../integrity/dsse.ts";
import type { SigningDiagnosis } from "../../protocol/diagnosis.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { hasBegun } from "../../protocol/signing-keys.ts";
import { systemKeys } from "../../records/kv/keyspace.ts";
import { asFleetError } from "../../records/kv/store-errors.ts";
import { wasAdded } from "../../records/signing/key-history.ts";
import { areSignaturesRequired, findSigningKey, isKeyInUse } from "../../records/signing/key-record.ts";
import {
  addSigningKey,
  addSuccessor,
  findSuccessor,
  retireSigningKey,
  serviceActor,
} from "../../records/signing/key-registry.ts";
import {
  type CommitSigner,
  KeyOutOfUse,
  signedStore,
  transactAsLast,
  unsignedStore,
} from "../../records/signing/signed-store.ts";
import type { ServiceContext, Stop } from "../../runtime/process/service.ts";
import { exitCodes, refusedStart, StartupError } from "../../runtime/process/startup.ts";
import type { Store, Tx } from "../../store/store.ts";
import { SigningKeyFile } from "./signing-key-file.ts";

const OFF = "off";
const FILE = "signing-key.pem";
const WRITE = { label: "signing_key", deadlineMs: 5_000, onUnknown: "safe" } as const;
/** The time after which a replaced file is noticed. Changes in the store are noticed at once. */
const POLL_MS = 10_000;
/** The pause after a record that cannot be read: without the last value that was seen, each wait for a change ends at once. */
const UNREADABLE_MS = 1_000;

export interface SigningOptions {
  readonly service: string;
  /** The folder of a standalone fleet, which makes its own key. */
  readonly home?: string | undefined;
  readonly signingKeyFile?: string | undefined;
}

export interface Signing {
  /** The store, whose transactions are signed if there is a key, and are refused without one where they must be. */
  readonly store: Store;
  /** What `diagnose` answers about the key. */
  readonly state: () => SigningDiagnosis;
  readonly stop: Stop;
}

/**
 * Commits the registration of a new key, so a store that may yet be refused comes first. Throws StartupError for a key that cannot be used, and without
 * a key if the store requires signatures.
 */
export async function openSigning(
  context: ServiceContext,
  store: Store,
  { service, home, signingKeyFile }: SigningOptions,
): Promise<Signing> {
  const named = signingKeyFile ?? (home === undefined ? OFF : join(home, FILE));
  if (named === OFF) {
    await requireUnsigned(store);
    context.log.info(
      { setting: "FLEET_SIGNING_KEY" },
      "commits are not signed: the service has no signing key",
    );
    return unsigned(context, store, null);
  }
  const file = new SigningKeyFile(named);
  removeUnfinished(context, file);
  if (home !== undefined) file.create();
  const holder = new SigningKeyHolder(context, store, { service, file, key: file.read() });
  try {
    await holder.obtain();
  } catch (cause) {
    if (cause instanceof StartupError) throw cause;
    const error = asFleetError(cause);
    if (error.code !== "CORRUPT" || (await store.read(WRITE, areSignaturesRequired)))
      throw refusedStart(error, { setting: "FLEET_SIGNING_KEY" });
    // A damaged chain of the default tenant must not end the work of all tasks.
    context.log.error({ error }, "commits are not signed: the signing key cannot be registered");
    return unsigned(context, store, file);
  }
  const stop = holder.follow();
  return { store: signedStore(store, holder), state: () => stateOf(file, holder.key), stop };
}

function unsigned({ log }: ServiceContext, store: Store, file: SigningKeyFile | null): Signing {
  let isLogged = false;
  const onRefused = () => {
    if (!isLogged)
      log.error(
        { setting: "FLEET_SIGNING_KEY" },
        "the service commits nothing: the store has come to require signatures, and the service has no signing key",
      );
    isLogged = true;
  };
  return { store: unsignedStore(store, onRefused), state: () => stateOf(file, null), stop: async () => {} };
}

function stateOf(file: SigningKeyFile | null, key: SigningKey | null): SigningDiagnosis {
  return { key_id: key?.id ?? null, file: file?.path ?? null, file_mode: file?.mode() ?? null };
}

/** A folder that cannot be read or written is no reason not to start: its key file decides. */
function removeUnfinished({ log }: ServiceContext, file: SigningKeyFile): void {
  try {
    const files = file.removeUnfinished();
    if (files > 0)
      log.info({ file: file.path, files }, "unfinished signing keys of killed processes removed");
  } catch (error) {
    log.warn({ error, file: file.path }, "unfinished signing keys cannot be removed");
  }
}

async function requireUnsigned(store: Store): Promise<void> {
  if (!(await store.read(WRITE, areSignaturesRequired))) return;
  throw new StartupError("every commit in this store must be signed, and the service has no signing key", {
    exitCode: exitCodes.config,
    details: { setting: "FLEET_SIGNING_KEY" },
    hint: "name the file of a signing key; make one with: umask 077; openssl genpkey -algorithm ed25519 -out FILE",
  });
}

/** `new`: it was never registered. `not_begun`: in use, with a begin that is ahead of this clock. */
type Standing = "new" | "in_use" | "not_begun" | "out_of_use";

class SigningKeyHolder implements CommitSigner {
  readonly #context: ServiceContext;
  readonly #store: Store;
  readonly #service: string;
  readonly #file: SigningKeyFile;
  #key: SigningKey;
  #renewal: Promise<void> | null = null;
  /** The latest time of the entries that those of this process follow. */
  #latestMs = Number.NEGATIVE_INFINITY;

  constructor(
    context: ServiceContext,
    store: Store,
    { service, file, key }: { service: string; file: SigningKeyFile; key: SigningKey },
  ) {
    this.#context = context;
    this.#store = store;
    this.#service = service;
    this.#file = file;
    this.#key = key;
  }

  get key(): SigningKey {
    return this.#key;
  }

  readonly onSigned = (signatures: number): void => {
    this.#context.metrics.signaturesTotal.inc(signatures);
  };

  /** The time of a clock that is further ahead than clocks may be does not count. */
  readonly onSigning = (latestMs: number): void => {
    const isPossible = latestMs <= this.#context.clock.now() + LIMITS.clock_skew_ms_max;
    if (isPossible && latestMs > this.#latestMs) this.#latestMs = latestMs;
  };

  async renew(outOfUse: string): Promise<void> {
    if (this.#key.id !== outOfUse) return;
    this.#renewal ??= this.obtain().finally(() => {
      this.#renewal = null;
    });
    await this.#renewal.catch((error: unknown) => {
      if (error instanceof FleetError) throw error;
      throw this.#withoutSuccessor(error);
    });
  }

  /** Takes the key of the file, or its successor if the key is no longer in use, or not yet. Throws UNAVAILABLE if there is none. */
  async obtain(): Promise<void> {
    const own = this.#file.read();
    const standing = await this.#standingOf(own);
    // The key keeps its use: its end would reject what a clock that was ahead has signed with it.
    if (standing === "not_begun")
      this.#context.log.warn(
        { key_id: own.id, next: "set the clocks of all services right" },
        "the signing key begins ahead of this clock, and is replaced: this clock is behind, or the one that registered the key was ahead",
      );
    if (standing === "out_of_use" || standing === "not_begun") return this.#succeed(own, { isInUse: false });
    if (standing === "new") {
      // Its first signature is that of its own registration.
      await this.#signing(own, (tx) => addSigningKey(tx, own, { ...this.#change(), replaces: null }));
      this.#context.log.info({ key_id: own.id }, "signing key registered");
    }
    this.#use(own);
  }

  /** A key whose record is lost or damaged is out of use: it may have been revoked. */
  async #standingOf({ id }: SigningKey): Promise<Standing> {
    const seen = await this.#registered(id);
    if (seen !== "new" || !(await wasAdded(this.#store, WRITE, id))) return seen;
    // Another service with the same file may have registered the key after the first look.
    const again = await this.#registered(id);
    if (again !== "new") return again;
    this.#context.log.error({ key_id: id }, "the registry has lost the record of the signing key");
    return "out_of_use";
  }

  /** `new`: the registry has no record of the key. */
  async #registered(id: string): Promise<Standing> {
    return this.#store.read(WRITE, async (reader) => {
      if ((await reader.get(systemKeys.signingKey(id))) === undefined) return "new";
      const record = await findSigningKey(reader, id);
      if (!isKeyInUse(record)) return "out_of_use";
      return hasBegun(record, this.#context.clock.now()) ? "in_use" : "not_begun";
    });
  }

  async #signing<T>(key: SigningKey, body: (tx: Tx) => Promise<T>): Promise<T> {
    const signer = { key, renew: async () => {} };
    return (await signedStore(this.#store, signer).transact(WRITE, body)).value;
  }

  #use(key: SigningKey): void {
    if (this.#key !== key)
      this.#context.log.info({ key_id: key.id, file: this.#file.path }, "commits are signed");
    this.#key = key;
  }

  /**
   * Goes over to the successor of a key. The store decides which one it is, and its private key is on disk before that, so a crash after any step and
   * other processes with the same file lead to the same key.
   */
  async #succeed(before: SigningKey, { isInUse }: { readonly isInUse: boolean }): Promise<void> {
    const isHeld = (id: string) => this.#file.find(id) !== null;
    const sought = { before: before.id, isHeld, nowMs: this.#context.clock.now() };
    const known = await this.#store.read(WRITE, (reader) => findSuccessor(reader, sought));
    const id = await this.#successor(before, { known, isInUse, isHeld });
    // Another process of the same file was first, or the key has not begun.
    if (id === null) return this.obtain();
    const key = this.#file.find(id);
    if (key === null) throw this.#withoutSuccessor(undefined);
    try {
      this.#file.promote(id, { predecessor: before.id });
    } catch (error) {
      this.#context.log.error(
        { error, key_id: id },
        "the next signing key did not get its place, but is used",
      );
    }
    this.#context.log.info({ key_id: before.id, next: id }, "signing key replaced");
    this.#use(key);
  }

  /** Ends the use of `before`, if it is in use. null: another process has ended it, or it has not begun. */
  async #successor(
    before: SigningKey,
    { known, isInUse, isHeld }: { known: string | null; isInUse: boolean; isHeld: (id: string) => boolean },
  ): Promise<string | null> {
    if (known !== null) return isInUse ? this.#handOver(before, async () => known) : known;
    const next = await this.#candidate();
    const add = (tx: Tx) => addSuccessor(tx, { before: before.id, next, isHeld }, this.#change());
    return isInUse ? this.#handOver(before, add) : this.#signing(next, add);
  }

  async #candidate(): Promise<SigningKey> {
    try {
      return await this.#file.candidate(async (id) => {
        const record = await this.#store.read(WRITE, (reader) => reader.get(systemKeys.signingKey(id)));
        return record === undefined;
      });
    } catch (error) {
      throw error instanceof FleetError ? error : this.#withoutSuccessor(error);
    }
  }

  #withoutSuccessor(cause: unknown): FleetError {
    return new FleetError(
      "UNAVAILABLE",
      "the service needs another signing key, and cannot make one itself",
      {
        details: {
          file: this.#file.path,
          next: "replace the file; if the log says that the key begins ahead of the clock, set the clock right",
        },
        cause,
      },
    );
  }

  /**
   * Carries out `body`, which adds the next key, and ends the use of `before`, whose last signature is that of this change. null: `before` is no longer in
   * use, or has not begun.
   */
  async #handOver<T>(before: SigningKey, body: (tx: Tx) => Promise<T>): Promise<T | null> {
    try {
      const { value } = await transactAsLast(this.#store, before, WRITE, async (tx) => {
        const value = await body(tx);
        await retireSigningKey(tx, before.id, this.#lastChange());
        return value;
      });
      return value;
    } catch (error) {
      if (error instanceof KeyOutOfUse) return null;
      throw error;
    }
  }

  #change() {
    return { actor: serviceActor(this.#service), nowMs: this.#context.clock.now() };
  }

  /**
   * The end of the use of a key, not earlier than what it has signed, also where that follows an entry of a service with a fast clock: a revocation
   * is not earlier than this end, and so rejects no entry that was committed before it. The change itself has the time of this clock: a revocation that
   * cannot be as late as the end still accepts the change, and with it the next key.
   */
  #lastChange() {
    const change = this.#change();
    return { ...change, endMs: Math.max(change.nowMs, this.#latestMs) };
  }

  /** Goes over to the key that an operator has put into the file. */
  async #takeOver(next: SigningKey): Promise<void> {
    const before = this.#key;
    const standing = await this.#standingOf(next);
    const isUsable = standing === "new" || standing === "in_use";
    // It may be the predecessor of the present key, which did not get its place.
    if (!isUsable) this.#file.promote(before.id, { predecessor: next.id });
    if (this.#file.read().id === before.id) return;
    if (!isUsable)
      throw new FleetError(
        "CONFLICT",
        "the file has a signing key that is out of use, or begins ahead of the clock; the present one stays",
        {
          details: { key_id: next.id, next: "put a new key into the file" },
        },
      );
    const add = async (tx: Tx) => {
      await addSigningKey(tx, next, { ...this.#change(), replaces: before.id });
      return next.id;
    };
    // The present key cannot sign the change any more, or has not begun.
    if ((await this.#handOver(before, add)) === null) return this.renew(before.id);
    this.#context.log.info({ key_id: before.id, next: next.id }, "signing key replaced");
  }

  /** Follows the record of the key and its file until the returned function is called. */
  follow(): Stop {
    const ending = new AbortController();
    const { signal } = ending;
    const loop = (async () => {
      while (!signal.aborted) {
        const { id } = this.#key;
        try {
          const seen = await this.#examine(id);
          if (seen !== undefined && this.#key.id !== id) continue;
          await this.#store
            .changed(systemKeys.signingKey(id), seen, { signal, pollMs: POLL_MS })
            .catch(() => this.#context.clock.sleep(POLL_MS, signal));
        } catch (error) {
          this.#context.log.warn({ error, key_id: id }, "the signing key cannot be examined now");
          await this.#context.clock.sleep(UNREADABLE_MS, signal);
        }
      }
    })();
    return async () => {
      ending.abort();
      await loop;
    };
  }

  /** Returns the record of the key as it was seen, also if the key cannot be replaced now. */
  async #examine(id: string): Promise<Uint8Array | undefined> {
    const { value, record } = await this.#store.read(WRITE, async (reader) => ({
      value: await reader.get(systemKeys.signingKey(id)),
      record: await findSigningKey(reader, id),
    }));
    try {
      const isInUse = isKeyInUse(record);
      const inFile = this.#file.read();
      if (isInUse && inFile.id !== id) await this.#takeOver(inFile);
      else if (isInUse && record.rotation_requested_at !== null)
        await this.#succeed(inFile, { isInUse: true });
      else if (isInUse) return value;
      await this.renew(id);
    } catch (error) {
      this.#context.log.error(
        { error, key_id: id, file: this.#file.path },
        "the signing key cannot be replaced",
      );
    }
    return value;
  }
}
