/** The bytes of a certificate of shredding: the statement, and the list of removed checkpoints that it names by a hash. */
import { createHash } from "node:crypto";
import type { ShredEvidence, ShredStatement } from "../../protocol/shred-certificate.ts";
import { canonicalText } from "../canonical.ts";

type RemovedLine = Pick<ShredEvidence["checkpoints"][number], "checkpoint_id" | "version" | "hash" | "seq">;

/** The hash of removed checkpoints, line after line in the order of the task. */
export function createRemovedDigest() {
  const digest = createHash("sha256");
  let count = 0;
  return {
    add({ checkpoint_id, hash, seq, version }: RemovedLine): void {
      count += 1;
      digest.update(`${canonicalText({ checkpoint_id, hash, seq, version })}\n`);
    },
    finish: (): ShredStatement["checkpoints"] => ({ count, sha256: digest.digest("hex") }),
  };
}

export function shredPayload(statement: ShredStatement): Uint8Array {
  return Buffer.from(canonicalText(statement));
}
