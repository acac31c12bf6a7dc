/** The log of a database on a simulated disk: one record for each committed batch, with its checksum. */
import { crc32 } from "node:zlib";
import type { Slab } from "../../../shared/store/optimistic/commit.ts";
import type { SimulatedDisk } from "./disk.ts";

/** Length u32, checksum u32, number of requests u32, then the requests. */
const HEAD_BYTES = 12;
const WITHDRAWN_OFFSET = 4;

/** The bytes of the requests in a slab, which is longer. */
function usedBytes({ buffer, requests }: Slab): Buffer {
  const bytes = Buffer.from(buffer);
  let length = 0;
  for (let n = 0; n < requests; n += 1) length += bytes.readUInt32BE(length);
  return bytes.subarray(0, length);
}

/** Withdraws each request for which `isRefused` is true, so that it ends as a conflict. */
export function refuse(slab: Slab, isRefused: () => boolean): void {
  const bytes = Buffer.from(slab.buffer);
  for (let n = 0, at = 0; n < slab.requests; n += 1) {
    if (isRefused()) bytes[at + WITHDRAWN_OFFSET] = 1;
    at += bytes.readUInt32BE(at);
  }
}

export function appendBatch(disk: SimulatedDisk, slabs: readonly Slab[]): void {
  for (const slab of slabs) {
    const requests = usedBytes(slab);
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32BE(requests.length, 0);
    head.writeUInt32BE(crc32(requests), 4);
    head.writeUInt32BE(slab.requests, 8);
    disk.append(head);
    disk.append(requests);
  }
}

/** The complete records from the begin of the log. Removes what follows them: the remains of a record that was never acknowledged. */
export function recoverLog(disk: SimulatedDisk): Slab[] {
  const { bytes } = disk;
  const slabs: Slab[] = [];
  let at = 0;
  while (at + HEAD_BYTES <= bytes.length) {
    const length = bytes.readUInt32BE(at);
    const requests = bytes.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length);
    const isWhole =
      length > 0 && requests.length === length && crc32(requests) === bytes.readUInt32BE(at + 4);
    if (!isWhole) break;
    slabs.push({ buffer: Uint8Array.from(requests).buffer, requests: bytes.readUInt32BE(at + 8) });
    at += HEAD_BYTES + length;
  }
  disk.truncate(at);
  return slabs;
}
