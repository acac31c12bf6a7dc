/** The keys of signatures and of the audit log. The table in `keyspace.ts` says what they hold. */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import type { Bytes, KeyRange } from "../../store/store.ts";
import { children, name, number } from "./key-elements.ts";

export const EVIDENCE_SUBSPACES = [
  "signatures",
  "tenant_signatures",
  "log",
  "log_tiles",
  "log_places",
  "tenant_log_places",
  "log_anchors",
  "log_restores",
] as const;
type EvidenceSubspace = (typeof EVIDENCE_SUBSPACES)[number];

export function evidenceKeys(at: (subspace: EvidenceSubspace, ...parts: Buffer[]) => Buffer) {
  return {
    /** `task` null: of the tenant's chain. */
    signature: (task: string | null, seq: number): Bytes =>
      task === null ? at("tenant_signatures", number(seq)) : at("signatures", name(task), number(seq)),
    signatures: (task: string | null): KeyRange =>
      children(task === null ? at("tenant_signatures") : at("signatures", name(task))),
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
