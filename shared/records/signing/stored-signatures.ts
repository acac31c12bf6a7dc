/** Reads signatures of a chain and verifies them with the registered keys. */
import {
  envelopeOf,
  type JudgedSignature,
  judgeSignature,
  type PlacedSignature,
} from "../../integrity/commit-signature.ts";
import type { Envelope } from "../../integrity/dsse.ts";
import type { PlacedEnvelope, SigningKeyRecord } from "../../protocol/signing-keys.ts";
import type { KeyValue, Reader } from "../../store/store.ts";
import { parseSeq, type TenantKeys } from "../kv/keyspace.ts";
import { findSigningKey } from "./key-record.ts";
import { decodeSignature } from "./signature-record.ts";

/** The registered keys, each read once in a snapshot. */
export class KeyLookup {
  readonly #reader: Reader;
  readonly #found = new Map<string, Promise<SigningKeyRecord | null>>();

  constructor(reader: Reader) {
    this.#reader = reader;
  }

  /** null: it is not registered, or its record is damaged. */
  find(id: string): Promise<SigningKeyRecord | null> {
    const known = this.#found.get(id);
    if (known !== undefined) return known;
    const found = findSigningKey(this.#reader, id);
    this.#found.set(id, found);
    return found;
  }
}

export interface ChainPart {
  /** null: the chain of the tenant. */
  readonly task: string | null;
  readonly from: number;
  /** The number of entries from there on. */
  readonly count: number;
}

/** The signatures of a part of a chain, in order, and the one after them, which may cover its last entries. */
export async function readSignatures(
  reader: Reader,
  keys: TenantKeys,
  lookup: KeyLookup,
  part: ChainPart,
): Promise<PlacedSignature[]> {
  const rows = await readRows(reader, keys, part);
  return Promise.all(
    rows.map(async ({ key, value }) => ({ seq: parseSeq(key), judged: await judged(lookup, value) })),
  );
}

/** The same signatures as envelopes, for programs that verify them. */
export async function readEnvelopes(
  reader: Reader,
  keys: TenantKeys,
  part: ChainPart,
): Promise<PlacedEnvelope[]> {
  const rows = await readRows(reader, keys, part);
  return rows.map(({ key, value }) => {
    const signature = decodeSignature(value);
    return { seq: parseSeq(key), envelope: signature && mutable(envelopeOf(signature)) };
  });
}

async function readRows(
  reader: Reader,
  keys: TenantKeys,
  { task, from, count }: ChainPart,
): Promise<readonly KeyValue[]> {
  const range = { begin: keys.signature(task, from), end: keys.signatures(task).end };
  return (await reader.getRange(range, { limit: count + 1 })).rows;
}

const mutable = ({ signatures, ...rest }: Envelope) => ({ ...rest, signatures: [...signatures] });

async function judged(lookup: KeyLookup, value: Uint8Array): Promise<JudgedSignature> {
  const signature = decodeSignature(value);
  return judgeSignature(signature, signature && (await lookup.find(signature.keyId)));
}
