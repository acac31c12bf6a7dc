/**
 * The commit request of one transaction as bytes: the evidence of its reads, and its writes. Bytes move to
 * the committing thread without a copy per object. The memory driver uses the same form, so the cheap tests
 * cover it.
 *
 * Layout, integers big-endian: length u32 · withdrawn u8 · guard u8 · snapshot sequence u64 · reads (u32
 * length, then records) · writes, up to the length. A record is a tag and its fields; byte strings carry
 * their length.
 */

import type { Bytes, KeyRange } from "../store.ts";
import { ByteWriter } from "./bytes.ts";
import { writeValueEvidence } from "./evidence.ts";
import type { Atomic, Overlay, OwnWrite } from "./overlay.ts";

export const READ = { key: 1, range: 2 } as const;
export const WRITE = {
  clear_range: 1,
  set: 2,
  clear: 3,
  add_i64: 4,
  byte_max: 5,
  stamped_value: 6,
  stamped_key: 7,
} as const;

const WITHDRAWN_OFFSET = 4;

/** The read set of one attempt, encoded as the reads happen. */
export class ReadSet {
  #records: ByteWriter | undefined;
  /** True when a range was too long to record: then any commit since the snapshot is a conflict. */
  guard = false;

  key(key: Bytes, value: Bytes | undefined): void {
    const out = this.#open();
    out.u8(READ.key);
    out.sized(key);
    writeValueEvidence(out, value);
  }

  range(range: KeyRange, rows: number, evidence: Bytes): void {
    const out = this.#open();
    out.u8(READ.range);
    out.sized(range.begin);
    out.sized(range.end);
    out.u32(rows);
    out.sized(evidence);
  }

  get bytes(): Bytes {
    return this.#records?.bytes ?? NOTHING;
  }

  #open(): ByteWriter {
    this.#records ??= new ByteWriter(Buffer.allocUnsafe(FIRST_RECORDS_BYTES));
    return this.#records;
  }
}

const NOTHING = new Uint8Array(0);
const FIRST_RECORDS_BYTES = 1_024;

export interface CommitRequest {
  /** The commit counter of the snapshot that was read. */
  readonly sequence: bigint;
  readonly reads: ReadSet;
  readonly overlay: Overlay;
}

/** Appends the request and returns its offset, for {@link withdrawRequest}. */
export function encodeRequest(out: ByteWriter, request: CommitRequest): number {
  const start = out.length;
  out.u32(0); // the length, known at the end
  out.u8(0);
  out.u8(request.reads.guard ? 1 : 0);
  out.i64(request.sequence);
  out.sized(request.reads.bytes);
  for (const range of request.overlay.clearedRanges) {
    out.u8(WRITE.clear_range);
    out.sized(range.begin);
    out.sized(range.end);
  }
  for (const [key, write] of request.overlay.writes) encodeWrite(out, key, write);
  for (const { prefix, suffix, order, value } of request.overlay.stampedKeys) {
    out.u8(WRITE.stamped_key);
    out.sized(prefix);
    out.sized(suffix);
    out.u16(order);
    out.sized(value);
  }
  out.setU32(start, out.length - start);
  return start;
}

/** Withdraws a request that has not been handed over. */
export function withdrawRequest(out: ByteWriter, offset: number): void {
  out.setU8(offset + WITHDRAWN_OFFSET, 1);
}

function encodeWrite(out: ByteWriter, key: string, write: OwnWrite): void {
  if (write.kind === "atomic") {
    for (const atomic of write.atomics) encodeAtomic(out, key, atomic);
  } else if (write.kind === "stamped") {
    out.u8(WRITE.stamped_value);
    out.key(key);
    out.sized(write.prefix);
    out.sized(write.suffix);
  } else if (write.value === undefined) {
    out.u8(WRITE.clear);
    out.key(key);
  } else {
    out.u8(WRITE.set);
    out.key(key);
    out.sized(write.value);
  }
}

function encodeAtomic(out: ByteWriter, key: string, atomic: Atomic): void {
  if (atomic.kind === "add_i64") {
    out.u8(WRITE.add_i64);
    out.key(key);
    out.i64(atomic.delta);
  } else {
    out.u8(WRITE.byte_max);
    out.key(key);
    out.sized(atomic.value);
  }
}
