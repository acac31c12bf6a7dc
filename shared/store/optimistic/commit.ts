/**
 * The committing half of the optimistic transaction: compares the reads with the stored values, then writes.
 * It runs in the engine's single writer (LMDB: a worker thread, in one engine transaction per batch) and
 * never calls user code.
 *
 * Each request writes everything or nothing: all comparisons come before the first write. The requests of a
 * batch see the writes of the requests before them.
 */

import type { Bytes, KeyRange, KeyValue } from "../store.ts";
import { ByteReader } from "./bytes.ts";
import { rowsEvidence, valueEvidence } from "./evidence.ts";
import { addI64, applyAtomic } from "./overlay.ts";
import { READ, WRITE } from "./request.ts";
import { commitStamp, stampedKey } from "./stamps.ts";

/** The newest state, as the writer sees it. */
export interface Writable {
  get(key: Bytes): Bytes | undefined;
  /** Ascending. */
  rows(range: KeyRange, limit: number): KeyValue[];
  set(key: Bytes, value: Bytes): void;
  clear(key: Bytes): void;
  clearRange(range: KeyRange): void;
}

export interface Slab {
  readonly buffer: ArrayBuffer;
  readonly requests: number;
}

/** The outcome of a request that conflicts or was withdrawn; any other outcome is its commit sequence. */
export const NOT_COMMITTED = 0n;

export interface BatchResult {
  /** One entry per request, in order. */
  readonly outcomes: BigUint64Array<ArrayBuffer>;
  /** The commit counter after the batch. */
  readonly sequence: bigint;
  /** The memory of the slabs, for reuse. */
  readonly buffers: ArrayBuffer[];
}

export function commitSlabs(store: Writable, slabs: readonly Slab[], sequence: bigint): BatchResult {
  const outcomes = new BigUint64Array(slabs.reduce((sum, slab) => sum + slab.requests, 0));
  let newest = sequence;
  let index = 0;
  for (const slab of slabs) {
    const input = new ByteReader(slab.buffer);
    for (let n = 0; n < slab.requests; n++) {
      const end = input.offset + input.u32();
      if (commitRequest(store, input, end, newest)) outcomes[index] = ++newest;
      input.offset = end;
      index++;
    }
  }
  return { outcomes, sequence: newest, buffers: slabs.map((slab) => slab.buffer) };
}

function commitRequest(store: Writable, input: ByteReader, end: number, newest: bigint): boolean {
  const withdrawn = input.u8() === 1;
  const guard = input.u8() === 1;
  const snapshot = input.i64();
  const readsLength = input.u32();
  const readsEnd = input.offset + readsLength;
  if (withdrawn) return false;
  if (snapshot !== newest) {
    if (guard || !readsStillHold(store, input, readsEnd)) return false;
  }
  input.offset = readsEnd;
  const stamp = commitStamp(newest + 1n);
  while (input.offset < end) applyWrite(store, input, stamp);
  return true;
}

function readsStillHold(store: Writable, input: ByteReader, end: number): boolean {
  while (input.offset < end) {
    const holds = input.u8() === READ.key ? keyStillHolds(store, input) : rangeStillHolds(store, input);
    if (!holds) return false;
  }
  return true;
}

function keyStillHolds(store: Writable, input: ByteReader): boolean {
  const key = input.sized();
  const evidence = input.sized();
  return valueEvidence(store.get(key)).equals(evidence);
}

function rangeStillHolds(store: Writable, input: ByteReader): boolean {
  const range = { begin: input.sized(), end: input.sized() };
  const count = input.u32();
  const evidence = input.sized();
  const rows = store.rows(range, count + 1); // one more: a row added at the end is a change too
  return rows.length === count && rowsEvidence(rows).equals(evidence);
}

function applyWrite(store: Writable, input: ByteReader, stamp: Bytes): void {
  const kind = input.u8();
  const first = input.sized();
  if (kind === WRITE.set) store.set(first, input.sized());
  else if (kind === WRITE.clear) store.clear(first);
  else if (kind === WRITE.clear_range) store.clearRange({ begin: first, end: input.sized() });
  else if (kind === WRITE.add_i64) store.set(first, addI64(store.get(first), input.i64()));
  else if (kind === WRITE.byte_max) {
    store.set(first, applyAtomic(store.get(first), { kind: "byte_max", value: input.sized() }));
  } else if (kind === WRITE.stamped_value) {
    store.set(first, Buffer.concat([input.sized(), stamp, input.sized()]));
  } else {
    const suffix = input.sized();
    const order = input.u16();
    store.set(stampedKey(first, stamp, order, suffix), input.sized());
  }
}
