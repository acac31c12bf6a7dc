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
  readonly counts = { signed: 0, unsigned: 0, signature_problems: 0, signatures_unread: 0 };
  readonly #isRequired: boolean;
  readonly #keys = new Map<string, SigningKeyRecord>();
  /** Entries whose signature has not been read. */
  #open: SignedEntry[] = [];
  /** The time of the last entry. */
  #before: unknown;

  /** `isRequired`: the fleet states that all its entries are signed. */
  constructor(isRequired: boolean) {
    this.#isRequired = isRequired;
  }

  get keyIds(): Iterable<string> {
    return this.#keys.keys();
  }

  add(line: ExportLineOf<"audit">, facts: AuditEntry): void {
    const { seq, entry: text, signature, signing_key: key } = line;
    if (key !== undefined) this.#keys.set(key.key_id, key);
    if (line.signature_unread && !this.#isRequired) {
      this.counts.signatures_unread += 1;
      this.#before = facts.at;
      return;
    }
    const place = { tenant: String(facts.tenant), task: String(facts.task), seq };
    this.#open.push({ ...place, hash: entryHash(text), facts, before: this.#before });
    this.#before = facts.at;
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
      const problem = judgeEntry(entry, after, this.#isRequired);
      if (problem === null) this.counts.signed += 1;
      else if (problem === "unsigned") this.counts.unsigned += 1;
      else this.counts.signature_problems += 1;
    }
    this.#open = [];
  }
}
