/**
 * The content of a request as one hash. A retry repeats the address and the bytes, directly or through the
 * queue, so it has the same hash. Another command under the same id has another hash.
 */
import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { CommandOp } from "../protocol/operations.ts";
import { type CommandAddress, SUBJECTS } from "../protocol/subjects.ts";

/**
 * SHA-256 of the bytes and CRC-32 of the subject, in hex. The subject is that of a direct command, also for
 * queued ones.
 */
export function requestHash({ tenant, agent, task, op }: CommandAddress, bytes: Uint8Array): string {
  const subject = SUBJECTS.command(tenant, agent, task, op as CommandOp);
  return `${hash("sha256", bytes, "hex")}${crc32(subject).toString(16).padStart(8, "0")}`;
}

/**
 * The message id in the queue's stream. Copies of one request have the same id. Another request under the
 * same command id has another one, so it is stored too and refused where its caller gets the refusal.
 */
export function queueMessageId(commandId: string, requestHash: string): string {
  return `${commandId}.${requestHash.slice(0, 16)}${requestHash.slice(-8)}`;
}
