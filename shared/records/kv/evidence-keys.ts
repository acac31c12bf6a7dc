/**
 * The keys of signatures and of the audit log. The table in `keyspace.ts` says what they hold. Those of the electronic signatures of people:
 * `esignatures`, task, seq: statement and proof. `esigned`, task, checkpoint, statement: the version and the seq. `signers`, signer: a person, and
 * the revocation. `passkeys`, passkey: its enrolment, and the revocation. `sign_failures`, caller: the times of refused attempts.
 */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, element, formatUuid, name, number, UUID_BYTES, uuid } from "./key-elements.ts";

export const EVIDENCE_SUBSPACES = [
  "signatures",
  "tenant_signatures",
  "log",
  "log_tiles",
  "log_places",
  "tenant_log_places",
  "log_anchors",
  "log_restores",
  "esignatures",
  "esigned",
  "signers",
  "passkeys",
  "sign_failures",
] as const;
type EvidenceSubspace = (typeof EVIDENCE_SUBSPACES)[number];

/** The code of a text, 64 hex digits and the 0 behind them. */
const HASH_ELEMENT_BYTES = 66;

/** The checkpoint in a key of the index of signed versions. */
export function esignedCheckpoint(key: Bytes): string {
  const end = key.length - HASH_ELEMENT_BYTES;
  return formatUuid(Buffer.from(key.subarray(end - UUID_BYTES, end)));
}

export function evidenceKeys(at: (subspace: EvidenceSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    /** `task` null: of the tenant's chain. */
    signature: (task: string | null, seq: number): Bytes =>
      task === null ? at("tenant_signatures", number(seq)) : at("signatures", name(task), number(seq)),
    signatures: (task: string | null): KeyRange =>
      children(task === null ? at("tenant_signatures") : at("signatures", name(task))),
    esignature: (task: string, seq: number): Bytes => at("esignatures", name(task), number(seq)),
    esignatures: (task: string): KeyRange => children(at("esignatures", name(task))),
    esigned: (task: string, checkpoint: string, statement: string): Bytes =>
      at("esigned", name(task), uuid(checkpoint), element(statement)),
    /** `checkpoint` null: of all. */
    esignedOf: (task: string, checkpoint: string | null): KeyRange =>
      children(checkpoint === null ? at("esigned", name(task)) : at("esigned", name(task), uuid(checkpoint))),
    signer: (hash: string): Bytes => at("signers", element(hash)),
    signers: (): KeyRange => children(at("signers")),
    passkey: (id: string): Bytes => at("passkeys", element(id)),
    passkeys: (): KeyRange => children(at("passkeys")),
    signFailures: (caller: string): Bytes => at("sign_failures", name(caller)),
    log: (): Bytes => at("log"),
    logTile: (level: number, n: number): Bytes => at("log_tiles", number(level), number(n)),
    /** `task` null: of the tenant's chain. */
    logPlace: (task: string | null, seq: number): Bytes =>
      task === null ? at("tenant_log_places", number(seq)) : at("log_places", name(task), number(seq)),
    logPlaces: (task: string | null): KeyRange =>
      children(task === null ? at("tenant_log_places") : at("log_places", name(task))),
    logAnchor: (target: AnchorTarget, size: number): Bytes => at("log_anchors", name(target), number(size)),
    /** `seq`: of the statement in the chain of the tenant. */
    logRestore: (seq: number): Bytes => at("log_restores", number(seq)),
    logRestores: (): KeyRange => children(at("log_restores")),
    logAnchors: (target: AnchorTarget): KeyRange => children(at("log_anchors", name(target))),
  };
}
