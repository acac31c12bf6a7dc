/** What a second revocation of a key has not changed. */
import {
  type RevocationReason,
  type SigningKeyRecord,
  strongerReason,
} from "../../../../shared/protocol/signing-keys.ts";

type Revoked = Pick<SigningKeyRecord, "key_id" | "revoked_at" | "revoked_reason">;

interface SecondRevocation {
  readonly before: Revoked;
  /** The answer of the service. */
  readonly after: Revoked;
  /** The reason that was named. */
  readonly reason: RevocationReason;
}

/** null: the key has the reason that was named, and its time or reason has changed. */
export function revocationWarning({ before, after, reason }: SecondRevocation) {
  const { key_id, revoked_at, revoked_reason } = after;
  const details = { key_id, revoked_at, revoked_reason };
  const strongest = strongerReason(reason, before.revoked_reason);
  // Another operator may have revoked it meanwhile, for a reason that is stronger still.
  if (strongerReason(strongest, revoked_reason) !== revoked_reason)
    return {
      code: "key_reason_weaker",
      text: `the service that answered is of an earlier version, which did not record the stronger reason: repeat the command with --reason ${strongest} after the upgrade`,
      details,
    };
  if (before.revoked_at === revoked_at && before.revoked_reason === revoked_reason)
    return {
      code: "key_unchanged",
      text: "nothing changed: the key was revoked before, from this time on or an earlier one, and for this reason or a stronger one",
      details,
    };
  if (revoked_reason === reason) return null;
  return {
    code: "key_reason_kept",
    text: "the key was revoked before for a stronger reason, which stays",
    details,
  };
}
