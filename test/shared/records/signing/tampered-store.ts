/** The store of signed records as a program changes it that can write to it, and what the scrub says then. */
import { afterEach } from "vitest";
import type { Revocation } from "../../../../shared/records/signing/key-registry.ts";
import { revokeSigningKey, serviceActor } from "../../../../shared/records/signing/key-registry.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  type SignedRecords,
  storeSignedBy,
  WRITING,
} from "../../../harness/records/signed.ts";

/** null: the row is removed. */
export type Rows = readonly (readonly [Bytes, Bytes | null])[];

/** A store in memory for each test of a file, with a clock that the test may set. */
export class TamperedStore {
  records!: SignedRecords;
  nowMs = 0;

  constructor() {
    afterEach(() => this.records.close());
  }

  readonly now = (): number => this.nowMs;
  readonly read = (key: Bytes) => rowIn(this.records.raw, key);
  readonly write = (rows: Rows) => overwrite(this.records.raw, rows);
  readonly codes = () => signatureCodes(this.records, this.now);

  async open({ isRegistered = true } = {}): Promise<void> {
    this.nowMs = Date.now();
    this.records = await openSignedRecords("memory", this.now, { isRegistered });
  }
}

function rowIn(store: Store, key: Bytes): Promise<Bytes | undefined> {
  return store.read(WRITING, (reader) => reader.get(key));
}

async function overwrite(store: Store, rows: Rows): Promise<void> {
  await store.transact(WRITING, async (tx) => {
    for (const [key, value] of rows) value === null ? tx.clear(key) : tx.set(key, value);
  });
}

/** The codes of the findings about signatures and keys, and the kinds of others. */
export async function signatureCodes(
  { raw, repository }: Pick<SignedRecords, "raw" | "repository">,
  now: () => number,
): Promise<string[]> {
  await scrub({ store: raw, repository }, { now });
  const found = await findingsOf(repository);
  return found.map(({ kind, details }) =>
    kind === "signature" || kind === "signing_key" ? details.slice(0, details.indexOf(":")) : kind,
  );
}

/** The records as a process with another key has them, which revokes the key of the first. */
export async function revokedByOther(
  records: SignedRecords,
  revocation: Partial<Revocation>,
  now: () => number,
): Promise<SignedRecords> {
  const key = newKey();
  const store = storeSignedBy(records.raw, key);
  await register(store, key, now());
  const change = { actor: serviceActor("test"), nowMs: now() };
  const wanted = { keyId: records.key.id, since: undefined, reason: "compromised", ...revocation } as const;
  await store.transact(WRITING, (tx) => revokeSigningKey(tx, wanted, change));
  return { ...records, key, store, repository: repositoryOn(store, records, now) };
}
