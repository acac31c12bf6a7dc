/** The keys of signatures. The table in `keyspace.ts` says what they hold. */
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, name, number } from "./key-elements.ts";

export const SIGNATURE_SUBSPACES = ["signatures", "tenant_signatures"] as const;
type SignatureSubspace = (typeof SIGNATURE_SUBSPACES)[number];

export function signatureKeys(at: (subspace: SignatureSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    /** `task` null: of the tenant's chain. */
    signature: (task: string | null, seq: number): Bytes =>
      task === null ? at("tenant_signatures", number(seq)) : at("signatures", name(task), number(seq)),
    signatures: (task: string | null): KeyRange =>
      children(task === null ? at("tenant_signatures") : at("signatures", name(task))),
  };
}
