/**
 * The signing key of a service: read from its file, registered in the store, and followed in both. A rotation, a revocation and a replaced file take
 * effect without a restart. Several processes may share one file.
 */
import { join } from "node:path";
import type { SigningKey } from "../integrity/dsse.ts";
import { FleetError } from "../protocol/errors.ts";
import { keyStateOf } from "../protocol/signing-keys.ts";
import { systemKeys } from "../records/kv/keyspace.ts";
import { decodeSigningKey, readSigningKey, type StoredSigningKey } from "../records/signing/key-record.ts";
import { addSigningKey, retireSigningKey, serviceActor } from "../records/signing/key-registry.ts";
import {
  type CommitSigner,
  KeyOutOfUse,
  signedStore,
  transactAsLast,
} from "../records/signing/signed-store.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import { refusedStart } from "../runtime/process/startup.ts";
import type { Store } from "../store/store.ts";
import { SigningKeyFile } from "./signing-key-file.ts";

const OFF = "off";
const FILE = "signing-key.pem";
const WRITE = { label: "signing_key", deadlineMs: 5_000, onUnknown: "safe" } as const;
/** The time after which a replaced file is noticed. Changes in the store are noticed at once. */
const POLL_MS = 10_000;

export interface SigningOptions {
  readonly service: string;
  /** The folder of a standalone fleet, which makes its own key. */
  readonly home?: string | undefined;
  readonly signingKeyFile?: string | undefined;
}

export interface Signing {
  /** The store, whose transactions are signed if there is a key. */
  readonly store: Store;
  readonly stop: Stop;
}

/** Throws StartupError for a key that cannot be used. */
export async function openSigning(
  context: ServiceContext,
  store: Store,
  { service, home, signingKeyFile }: SigningOptions,
): Promise<Signing> {
  const named = signingKeyFile ?? (home === undefined ? OFF : join(home, FILE));
  if (named === OFF) {
    context.log.info(
      { setting: "FLEET_SIGNING_KEY" },
      "commits are not signed: the service has no signing key",
    );
    return { store, stop: async () => {} };
  }
  const file = new SigningKeyFile(named);
  if (home !== undefined) file.create();
  const holder = new SigningKeyHolder(context, store, { service, file, key: file.read() });
  await holder.obtain().catch((error: unknown) => {
    throw error instanceof FleetError ? refusedStart(error, { setting: "FLEET_SIGNING_KEY" }) : error;
  });
  const stop = holder.follow();
  return { store: signedStore(store, holder), stop };
}

class SigningKeyHolder implements CommitSigner {
  readonly #context: ServiceContext;
  readonly #store: Store;
  readonly #service: string;
  readonly #file: SigningKeyFile;
  #key: SigningKey;
  #renewal: Promise<void> | null = null;

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

  async renew(outOfUse: string): Promise<void> {
    if (this.#key.id !== outOfUse) return;
    this.#renewal ??= this.obtain().finally(() => {
      this.#renewal = null;
    });
    await this.#renewal;
  }

  /** Takes the key of the file, or its successor if the key is no longer in use. Throws UNAVAILABLE if there is none. */
  async obtain(): Promise<void> {
    const own = this.#file.read();
    if (await this.#isUsable(own)) return this.#use(own, null);
    const next = this.#successor();
    // Another process may have promoted the successor meanwhile.
    const now = this.#file.read();
    if (now.id !== own.id && (await this.#isUsable(now))) return this.#use(now, null);
    await this.#use(next, own.id);
    this.#file.promote();
  }

  #successor(): SigningKey {
    try {
      return this.#file.next();
    } catch (error) {
      throw new FleetError("UNAVAILABLE", "the signing key is out of use, and its file has no other one", {
        details: { file: this.#file.path },
        cause: error,
      });
    }
  }

  async #isUsable({ id }: SigningKey): Promise<boolean> {
    const record = await this.#record(id);
    return record === null || keyStateOf(record) === "active";
  }

  #record(id: string): Promise<StoredSigningKey | null> {
    return this.#store.read(WRITE, (reader) => readSigningKey(reader, id));
  }

  /** Registers the key, unless it is registered, and signs with it from now on. */
  async #use(key: SigningKey, replaces: string | null): Promise<void> {
    const { log } = this.#context;
    const isNew = (await this.#record(key.id)) === null;
    if (isNew) {
      // Its first signature is that of its own registration.
      const signer = { key, renew: async () => {} };
      await signedStore(this.#store, signer).transact(WRITE, (tx) =>
        addSigningKey(tx, key, { ...this.#change(), replaces }),
      );
      log.info({ key_id: key.id, replaces }, "signing key registered");
    }
    if (this.#key !== key || isNew) log.info({ key_id: key.id, file: this.#file.path }, "commits are signed");
    this.#key = key;
  }

  #change() {
    return { actor: serviceActor(this.#service), nowMs: this.#context.clock.now() };
  }

  /** Registers `next` and ends the use of the present key, whose last signature is that of this change. */
  async #replace(next: SigningKey): Promise<void> {
    const before = this.#key;
    if (!(await this.#isUsable(next))) return;
    await transactAsLast(this.#store, before, WRITE, async (tx) => {
      await addSigningKey(tx, next, { ...this.#change(), replaces: before.id });
      await retireSigningKey(tx, before.id, this.#change());
    }).catch((error: unknown) => {
      // Another process of the same file was first.
      if (!(error instanceof KeyOutOfUse)) throw error;
    });
    this.#context.log.info({ key_id: before.id, next: next.id }, "signing key replaced");
  }

  /** Follows the record of the key and its file until the returned function is called. */
  follow(): Stop {
    const ending = new AbortController();
    const { signal } = ending;
    const loop = (async () => {
      while (!signal.aborted) {
        const { id } = this.#key;
        const seen = await this.#examine(id).catch((error: unknown) => {
          this.#context.log.warn({ error, key_id: id }, "the signing key cannot be examined now");
          return undefined;
        });
        if (seen !== undefined && this.#key.id !== id) continue;
        await this.#store
          .changed(systemKeys.signingKey(id), seen, { signal, pollMs: POLL_MS })
          .catch(() => this.#context.clock.sleep(POLL_MS, signal));
      }
    })();
    return async () => {
      ending.abort();
      await loop;
    };
  }

  /** Returns the record of the key as it was seen, also if the key cannot be replaced now. */
  async #examine(id: string): Promise<Uint8Array | undefined> {
    const value = await this.#store.read(WRITE, (reader) => reader.get(systemKeys.signingKey(id)));
    const record = value === undefined ? null : decodeSigningKey(value);
    try {
      const isActive = record !== null && keyStateOf(record) === "active";
      const inFile = this.#file.read();
      const isReplaced = inFile.id !== id;
      const isRequested = record?.rotation_requested_at != null;
      if (isActive && !isReplaced && !isRequested) return value;
      if (isActive) await this.#replace(isReplaced ? inFile : this.#successor());
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
