/**
 * The evidence of a transaction's reads, which the commit compares: the bytes themselves when they are few,
 * their SHA-256 when they are many (a scan of 10,000 large rows must not be copied to the committing thread).
 *
 * The comparison is by value, not by version: a key that was changed and changed back is no conflict. That is
 * serialisable, because at the commit every read would return the same value.
 */
import { createHash, hash } from "node:crypto";
import type { Bytes, KeyValue } from "../store.ts";
import type { ByteWriter } from "./bytes.ts";

const RAW_BYTES_MAX = 4_096;
const ABSENT = 0;
const RAW = 1;
const DIGEST = 2;

const absent = Buffer.of(ABSENT);

function tagged(tag: number, bytes: Bytes): Buffer {
  const result = Buffer.allocUnsafe(1 + bytes.length);
  result[0] = tag;
  result.set(bytes, 1);
  return result;
}

/** The evidence of one key's value. */
export function valueEvidence(value: Bytes | undefined): Buffer {
  if (value === undefined) return absent;
  return value.length <= RAW_BYTES_MAX
    ? tagged(RAW, value)
    : tagged(DIGEST, hash("sha256", value, { outputEncoding: "buffer" }));
}

/** Writes the evidence of one key's value as a sized byte string, without an intermediate array. */
export function writeValueEvidence(out: ByteWriter, value: Bytes | undefined): void {
  if (value === undefined || value.length > RAW_BYTES_MAX) {
    out.sized(valueEvidence(value));
  } else {
    out.u32(1 + value.length);
    out.u8(RAW);
    out.raw(value);
  }
}

/** The lengths of key and value: two different lists of rows must never give the same bytes. */
function rowHeader(row: KeyValue): Buffer {
  const header = Buffer.allocUnsafe(6);
  header.writeUInt16BE(row.key.length, 0);
  header.writeUInt32BE(row.value.length, 2);
  return header;
}

/** The evidence of all rows of a range, in ascending order. */
export function rowsEvidence(rows: readonly KeyValue[]): Buffer {
  if (rows.length === 0) return absent;
  const parts = rows.flatMap((row) => [rowHeader(row), row.key, row.value]);
  const bytes = parts.reduce((sum, part) => sum + part.length, 0);
  if (bytes <= RAW_BYTES_MAX) return tagged(RAW, Buffer.concat(parts, bytes));
  const digest = createHash("sha256");
  for (const part of parts) digest.update(part);
  return tagged(DIGEST, digest.digest());
}
