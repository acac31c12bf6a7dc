/**
 * The content of a request as one hash. A retry repeats its address and its bytes, by whichever way it comes, and so has the same
 * hash; another command under the same id has another.
 */
import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { type CommandAddress, type CommandOp, SUBJECTS } from "../protocol/subjects.ts";

/** SHA-256 of the bytes and CRC-32 of the subject, in hex. The address is spelled as on the direct way, also for what comes out of the queue. */
export function requestHash({ tenant, agent, task, op }: CommandAddress, bytes: Uint8Array): string {
  const subject = SUBJECTS.command(tenant, agent, task, op as CommandOp);
  return `${hash("sha256", bytes, "hex")}${crc32(subject).toString(16).padStart(8, "0")}`;
}

/**
 * What the queue's stream knows a message by. Copies of one request have the same; another request under the same command id has
 * not, so that it is stored too, and refused where its caller can hear of it.
 */
export function queueMessageId(commandId: string, requestHash: string): string {
  return `${commandId}.${requestHash.slice(0, 16)}${requestHash.slice(-8)}`;
}
