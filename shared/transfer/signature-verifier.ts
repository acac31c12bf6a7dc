/** Verifies the signatures of one exported task, line after line, with the keys that stand in the file. */
import { entryHash } from "../integrity/chain.ts";
import {
  judgeEntry,
  judgeSignatureNow,
  type PlacedSignature,
  type SignedEntry,
  signatureIn,
} from "../integrity/commit-signature.ts";
import type { AuditEntry } from "../lifecycle/replay.ts";
import type { ExportLineOf } from "../protocol/export-lines.ts";
import type { SigningKeyRecord } from "../protocol/signing-keys.ts";

export class SignatureVerifier {
  readonly counts = { signed: 0, unsigned: 0, signature_problems: 0 };
  readonly #hasSignatures: boolean;
  readonly #keys = new Map<string, SigningKeyRecord>();
  /** Entries whose signature has not been read. */
  #open: SignedEntry[] = [];

  /** `hasSignatures` false: an older version wrote the file, so that all entries count as unsigned. */
  constructor(hasSignatures: boolean) {
    this.#hasSignatures = hasSignatures;
  }

  add({ seq, entry: text, signature, signing_key: key }: ExportLineOf<"audit">, entry: AuditEntry): void {
    if (!this.#hasSignatures) {
      this.counts.unsigned += 1;
      return;
    }
    if (key !== undefined) this.#keys.set(key.key_id, key);
    const { tenant, task, signed_by: signedBy } = entry;
    this.#open.push({ tenant: String(tenant), task: String(task), seq, hash: entryHash(text), signedBy });
    if (signature === undefined) return;
    const found = signatureIn(signature);
    const judged = judgeSignatureNow(found, found && (this.#keys.get(found.keyId) ?? null));
    this.#close({ seq, judged });
  }

  /** The task ends: entries without a signature remain. */
  end(): void {
    this.#close(undefined);
  }

  #close(after: PlacedSignature | undefined): void {
    for (const entry of this.#open) {
      const problem = judgeEntry(entry, after);
      if (problem === null) this.counts.signed += 1;
      else if (problem === "unsigned") this.counts.unsigned += 1;
      else this.counts.signature_problems += 1;
    }
    this.#open = [];
  }
}
