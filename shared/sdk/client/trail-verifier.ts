/** Verifies a chain of entries and their signatures in this process, page after page. The server is trusted for the list of keys only. */
import {
  CHAIN_START,
  type ChainLink,
  type ChainReport,
  createChainVerifier,
  entryHash,
} from "../../integrity/chain.ts";
import {
  type EntryPlace,
  judgeEntries,
  judgeSignature,
  type PlacedSignature,
  type SignedFacts,
  signatureIn,
} from "../../integrity/commit-signature.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { PlacedEnvelope, SignatureProblem } from "../../protocol/signing-keys.ts";
import type { KnownKeys } from "../request/known-keys.ts";

export interface SignatureReport {
  readonly signed: number;
  readonly unsigned: number;
  readonly problems: readonly { readonly seq: number; readonly problem: SignatureProblem }[];
}

export interface TrailReport extends ChainReport {
  /** null: the fleet is older and answers no signatures. */
  readonly signatures: SignatureReport | null;
}

/** The pages of a verification. */
export const SIGNED_PAGE = { limit: LIMITS.audit_limit_max, signatures: true } as const;

interface ChainEnd {
  readonly seq: number;
  readonly hash: string;
}

export interface TrailPage {
  readonly entries: readonly ChainLink[];
  readonly signatures?: readonly PlacedEnvelope[];
}

export class TrailVerifier {
  readonly #chain: ReturnType<typeof createChainVerifier>;
  readonly #from: ChainEnd;
  readonly #of: Omit<EntryPlace, "seq">;
  readonly #keys: KnownKeys;
  readonly #problems: { seq: number; problem: SignatureProblem }[] = [];
  #signed = 0;
  #unsigned = 0;
  #hasSignatures = true;
  /** The time of the last entry. */
  #before: unknown;
  /** The number of the entry that has revoked each key, if the chain is that of the operators' acts on keys. */
  readonly #revokedIn = new Map<string, number>();

  /** `from`: the entry before the first one, of a chain whose beginning was removed. */
  constructor(of: Omit<EntryPlace, "seq">, keys: KnownKeys, from: ChainEnd = { seq: 0, hash: CHAIN_START }) {
    this.#of = of;
    this.#keys = keys;
    this.#from = from;
    this.#chain = createChainVerifier(from);
  }

  /** Verifies a whole chain, page after page, up to the head of the last page: entries written since the first one are part of the chain. */
  async verify(
    pageFrom: (
      seq: number,
    ) => Promise<TrailPage & { readonly head: ChainEnd | null; readonly more: boolean }>,
    onProgress?: (entries: number) => void,
  ): Promise<TrailReport> {
    for (let fromSeq = this.#from.seq + 1; ; ) {
      const page = await pageFrom(fromSeq);
      await this.#add(page);
      const last = page.entries.at(-1)?.seq;
      onProgress?.(last ?? 0);
      if (!page.more || last === undefined) return this.#finish(page.head ?? this.#from);
      fromSeq = last + 1;
    }
  }

  async #add({ entries, signatures }: TrailPage): Promise<void> {
    for (const entry of entries) this.#chain.add(entry);
    if (signatures === undefined) this.#hasSignatures = false;
    // An older fleet answers no signatures, and may not know the query for keys.
    if (!this.#hasSignatures || entries.length === 0) return;
    const isRequired = await this.#keys.areRequired();
    const read = entries.map(({ seq, entry }) => ({ seq, hash: entryHash(entry), facts: factsIn(entry) }));
    if (this.#of.task === null) for (const { seq, facts } of read) this.#noteRevocation(seq, facts);
    const placed = await Promise.all(signatures!.map((one) => this.#judged(one)));
    const part = { of: this.#of, entries: read, signatures: placed, before: this.#before, isRequired };
    for (const { seq, facts, problem } of judgeEntries(part)) {
      this.#before = facts.at;
      if (problem === null) this.#signed += 1;
      else if (problem === "unsigned") this.#unsigned += 1;
      else this.#problems.push({ seq, problem });
    }
  }

  async #judged({ seq, envelope }: PlacedEnvelope): Promise<PlacedSignature> {
    const signature = envelope && signatureIn(envelope);
    const found = signature && (await this.#keys.find(signature.keyId));
    const key = found && { ...found, entries: { key_revoke: this.#revokedIn.get(found.key_id) } };
    return { seq, judged: await judgeSignature(signature, key) };
  }

  /** An entry that is forged has a problem of its own. */
  #noteRevocation(seq: number, { action, subject }: ActFacts): void {
    const id = action === "key_revoke" ? subject?.key_id : undefined;
    if (typeof id === "string" && !this.#revokedIn.has(id)) this.#revokedIn.set(id, seq);
  }

  #finish(head: ChainEnd): TrailReport {
    const chain = this.#chain.finish(head);
    const problems = [...this.#problems];
    // Older readers beside newer ones leave pages without signatures; what the others have shown stays true.
    if (!this.#hasSignatures && problems.length === 0) return { ...chain, signatures: null };
    const signatures = { signed: this.#signed, unsigned: this.#unsigned, problems };
    return { ...chain, ok: chain.ok && problems.length === 0, signatures };
  }
}

interface ActFacts extends SignedFacts {
  readonly subject?: { readonly key_id?: unknown } | null;
}

/** An entry that cannot be parsed is a problem of the chain. */
function factsIn(entry: string): ActFacts {
  try {
    return (JSON.parse(entry) as ActFacts | null) ?? {};
  } catch {
    return {};
  }
}
