/** What the audit entry of a change states about a key. The scrub compares it with the record of the key. */
import type { SigningKeyRecord } from "../../protocol/signing-keys.ts";

export const KEY_CHANGES = ["key_add", "key_rotate", "key_retire", "key_revoke"] as const;
export type KeyChangeName = (typeof KEY_CHANGES)[number];

export function keySubject(change: KeyChangeName, key: SigningKeyRecord): Readonly<Record<string, string>> {
  const { key_id, owner, purpose, not_before, not_after, replaces, revoked_at, revoked_reason } = key;
  switch (change) {
    case "key_add":
      return { key_id, owner, purpose, not_before, ...(replaces !== null && { replaces }) };
    case "key_rotate":
      return { key_id };
    case "key_retire":
      return { key_id, not_after: String(not_after) };
    case "key_revoke":
      return { key_id, revoked_at: String(revoked_at), reason: String(revoked_reason) };
  }
}

/** Whether the record says that the change was made. */
export function hasChange(
  change: KeyChangeName,
  { not_after, revoked_at, revoked_reason, rotation_requested_at }: SigningKeyRecord,
): boolean {
  switch (change) {
    case "key_add":
      return true;
    case "key_rotate":
      return rotation_requested_at !== null;
    case "key_retire":
      return not_after !== null;
    case "key_revoke":
      return revoked_at !== null || revoked_reason !== null;
  }
}
