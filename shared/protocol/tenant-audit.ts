/** The audit chain of a tenant: the acts that concern no task's state. */

import type { PlacedEnvelope } from "./signing-keys.ts";

export const TENANT_ACTS = [
  "alert_ack",
  "scrub_start",
  "index_rebuild",
  "dead_retry",
  "dead_drop",
  "credentials_issue",
  "credentials_revoke",
  "policy_change",
  "artifact_remove",
  "artifact_repair",
  "export",
  "key_add",
  "key_retire",
  "key_rotate",
  "key_revoke",
  "encryption_rotate",
  "encryption_rewrap",
  "encryption_complete",
  "store_restore",
  "sign_refuse",
  "signer_revoke",
  "access_log",
  "passkey_add",
  "passkey_revoke",
] as const;
export type TenantAct = (typeof TENANT_ACTS)[number];

/** One audit entry with its hashed bytes, so that a caller can verify the chain itself. */
export interface AuditRecord {
  readonly seq: number;
  /** The canonical JSON that was hashed. */
  readonly entry: string;
  readonly hash: string;
}

export interface TenantAuditPage {
  /** The newest entry of the chain, from the same snapshot. null: the chain is empty. */
  readonly head: { readonly seq: number; readonly hash: string } | null;
  readonly entries: readonly AuditRecord[];
  readonly more: boolean;
  /** Absent unless they are asked for. */
  readonly signatures?: readonly PlacedEnvelope[];
}
