/**
 * A store whose transactions sign the entries that they append. The signature is written in the transaction of its
 * entries, so a crash leaves both or neither. The transaction also reads the key's registration: a commit after the
 * revocation or the retirement of its key is impossible, however old the process's view of the key is. So is one of a
 * time before the key begins, which verifications reject unless the entry before it is late enough.
 */
import type { SigningKey } from "../../integrity/dsse.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { CommitResult, Store, TransactOptions, Tx } from "../../store/store.ts";
import { beginSigning, earliestTimeIn, latestTimeIn, needsKey, writeSignatures } from "./commit-signing.ts";
import { areSignaturesRequired, beginOfUse } from "./key-record.ts";

/** The key is not registered, no longer in use, or begins after the time of an entry. Nothing was committed. */
export class KeyOutOfUse extends Error {
  readonly keyId: string;
  /** undefined: it is not in use at any time. */
  readonly beginMs: number | undefined;
  constructor(keyId: string, beginMs?: number) {
    super("the signing key is not in use");
    this.name = "KeyOutOfUse";
    this.keyId = keyId;
    this.beginMs = beginMs;
  }
}

export interface CommitSigner {
  /** The key of the next transaction. */
  readonly key: SigningKey;
  /** Called after a transaction failed because this key is not in use: the next attempt takes {@link key} again. */
  renew(outOfUse: string): Promise<void>;
  /** Called before a commit with the latest time of the entries that its own follow, in milliseconds since the epoch. */
  readonly onSigning?: (latestMs: number) => void;
  /** Called after a commit with the number of its signatures. */
  readonly onSigned?: (signatures: number) => void;
}

/** A key that two transactions in a row found out of use is not tried again. */
const ATTEMPTS_MAX = 3;

export function signedStore(store: Store, signer: CommitSigner): Store {
  return withTransact(store, (options, body) => transactRenewed(store, signer, options, body));
}

/**
 * The store of a service without a key. Another service may come to require signatures while this one runs: from then on each transaction that appends
 * entries throws UNAVAILABLE, so its commands are queued for a service with a key.
 */
export function unsignedStore(store: Store, onRefused: () => void): Store {
  return withTransact(store, (options, body) =>
    store.transact(options, async (tx) => {
      beginSigning(tx, null);
      const value = await body(tx);
      // Read in the transaction, so a concurrent one that writes the requirement and this one cannot both be committed.
      if (needsKey(tx) && (await areSignaturesRequired(tx))) {
        onRefused();
        throw signatureNeeded();
      }
      return value;
    }),
  );
}

function signatureNeeded(): FleetError {
  return new FleetError(
    "UNAVAILABLE",
    "every commit in this store must be signed, and the service has no signing key",
    { details: { setting: "FLEET_SIGNING_KEY", next: "give the service a signing key, and restart it" } },
  );
}

function withTransact(store: Store, transact: Store["transact"]): Store {
  const { clusterStatus } = store;
  return {
    name: store.name,
    transact,
    read: (options, body) => store.read(options, body),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    health: (options) => store.health(options),
    ...(clusterStatus !== undefined && { clusterStatus: (options) => clusterStatus.call(store, options) }),
    close: (options) => store.close(options),
  };
}

async function transactRenewed<T>(
  store: Store,
  signer: CommitSigner,
  options: TransactOptions,
  body: (tx: Tx) => Promise<T>,
): Promise<CommitResult<T>> {
  for (let attempt = 1; ; attempt += 1) {
    let signatures = 0;
    const { key } = signer;
    try {
      const result = await store.transact(options, async (tx) => {
        beginSigning(tx, key);
        const value = await body(tx);
        if (needsKey(tx)) requireBegun(tx, key, await requireInUse(tx, key));
        signatures = await writeSignatures(tx);
        if (signatures > 0) signer.onSigning?.(latestTimeIn(tx));
        return value;
      });
      if (signatures > 0) signer.onSigned?.(signatures);
      return result;
    } catch (error) {
      if (!(error instanceof KeyOutOfUse)) throw error;
      if (attempt >= ATTEMPTS_MAX) throw withoutKey(error);
      await signer.renew(error.keyId);
    }
  }
}

function withoutKey(error: KeyOutOfUse): FleetError {
  const { beginMs } = error;
  if (beginMs !== undefined)
    return new FleetError("UNAVAILABLE", "the commit has a time before the begin of the signing key", {
      details: {
        key_id: error.keyId,
        next: "repeat; if it happens again, set the clock of the service right",
      },
      cause: error,
    });
  return new FleetError("UNAVAILABLE", "the service has no signing key that is in use", {
    details: { key_id: error.keyId },
    cause: error,
  });
}

/** A transaction in which a key may end its own use: it must be in use before, and have begun. Throws {@link KeyOutOfUse}. */
export function transactAsLast<T>(
  store: Store,
  key: SigningKey,
  options: TransactOptions,
  body: (tx: Tx) => Promise<T>,
): Promise<CommitResult<T>> {
  return store.transact(options, async (tx) => {
    const beginMs = await requireInUse(tx, key);
    beginSigning(tx, key);
    const value = await body(tx);
    requireBegun(tx, key, beginMs);
    await writeSignatures(tx);
    return value;
  });
}

/** A lost or damaged record is no reason to stop: the signer goes over to the next key, and the scrub reports it. Returns when the key begins. */
async function requireInUse(tx: Tx, key: SigningKey): Promise<number> {
  const beginMs = await beginOfUse(tx, key);
  if (beginMs === null) throw new KeyOutOfUse(key.id);
  return beginMs;
}

/** A begin that cannot be read is after every time, as for verifications. */
function requireBegun(tx: Tx, key: SigningKey, beginMs: number): void {
  if (!(earliestTimeIn(tx) >= beginMs)) throw new KeyOutOfUse(key.id, beginMs);
}
