/** Signs the statements of concurrent commits together: those that are ready within one turn of the event loop. */
import {
  type CommitSignature,
  type CommitStatement,
  signStatements,
} from "../../integrity/commit-signature.ts";
import type { SigningKey } from "../../integrity/dsse.ts";
import { LIMITS } from "../../protocol/limits.ts";

interface Waiting {
  readonly statement: CommitStatement;
  readonly resolve: (signature: CommitSignature) => void;
  readonly reject: (error: unknown) => void;
}

/** The open batch of each key. */
const batches = new WeakMap<SigningKey, Waiting[]>();

export function signTogether(key: SigningKey, statement: CommitStatement): Promise<CommitSignature> {
  return new Promise((resolve, reject) => {
    const open = batches.get(key);
    const batch = open ?? [];
    batch.push({ statement, resolve, reject });
    if (batch.length >= LIMITS.signature_batch_count_max) batches.delete(key);
    else if (open === undefined) batches.set(key, batch);
    // After the input of this turn, with which other commits become ready.
    if (open === undefined) setImmediate(() => sign(key, batch));
  });
}

function sign(key: SigningKey, batch: readonly Waiting[]): void {
  if (batches.get(key) === batch) batches.delete(key);
  try {
    const signatures = signStatements(
      key,
      batch.map(({ statement }) => statement),
    );
    for (const [i, { resolve }] of batch.entries()) resolve(signatures[i]!);
  } catch (error) {
    for (const { reject } of batch) reject(error);
  }
}
