/** The keys with which services sign what they commit, and what the verification of a signature can find. */
import { z } from "zod";
import { LIMITS } from "./limits.ts";

/** ISO 8601. */
const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

/** Later purposes get keys of their own: a key signs for one purpose only. */
export const KEY_PURPOSE = "commits";

/** The member `signatures` of the first `key_add` in a new store: all entries of the store are signed. */
export const REQUIRED = "required";

/** Bits in the mode of a key file: read by others, or written by a group. A group may read: container platforms mount secrets so. */
export const EXPOSED_KEY_MODE = 0o027;

export const KEY_STATES = ["active", "retired", "revoked"] as const;
export type KeyState = (typeof KEY_STATES)[number];

/** From the strongest to the weakest. */
export const REVOCATION_REASONS = ["compromised", "lost", "replaced"] as const;
export type RevocationReason = (typeof REVOCATION_REASONS)[number];

/** A second revocation may find a key worse than the first one did, and never better: signatures that were rejected stay rejected. */
export function strongerReason(one: RevocationReason, other: RevocationReason | null): RevocationReason {
  return REVOCATION_REASONS.find((reason) => reason === one || reason === other)!;
}

/**
 * Whether others may have the key: its revocation counts from its own entry on, without an allowance for the clocks of services. A key that was replaced
 * as planned keeps the allowance.
 */
export function countsAtOnce(reason: string | null): boolean {
  return reason === "compromised" || reason === "lost";
}

/** The SHA-256 of the public key, in hex, so that an id cannot be given to another key. */
export const keyIdSchema = z.string().regex(/^[0-9a-f]{64}$/);

/** A key as its registry keeps it. Public keys are never deleted: they verify old signatures. */
export const signingKeySchema = z.looseObject({
  key_id: keyIdSchema,
  algorithm: z.literal("ed25519"),
  /** DER, SubjectPublicKeyInfo, in base64. */
  public_key: z.string(),
  purpose: z.string(),
  /** The service that has registered it. */
  owner: z.string(),
  /** Earlier than its registration by the greatest difference of clocks. */
  not_before: time,
  /** The end of its use by a rotation. */
  not_after: time.nullable(),
  /** Signatures of a later time are rejected. */
  revoked_at: time.nullable(),
  revoked_reason: z.enum(REVOCATION_REASONS).nullable(),
  /** The key that it follows. */
  replaces: keyIdSchema.nullable(),
  /** An operator has requested the next key. */
  rotation_requested_at: time.nullable(),
});
export type SigningKeyRecord = z.infer<typeof signingKeySchema>;

/** The time of its registration, in milliseconds since the epoch. */
export function registeredMs({ not_before }: Pick<SigningKeyRecord, "not_before">): number {
  return Date.parse(not_before) + LIMITS.clock_skew_ms_max;
}

/** Whether a signature of this time is not before the begin of the key. A clock that was ahead when it registered the key has set the begin too late for others. */
export function hasBegun({ not_before }: Pick<SigningKeyRecord, "not_before">, nowMs: number): boolean {
  return Date.parse(not_before) <= nowMs;
}

export function keyStateOf({
  not_after,
  revoked_at,
}: Pick<SigningKeyRecord, "not_after" | "revoked_at">): KeyState {
  if (revoked_at !== null) return "revoked";
  return not_after === null ? "active" : "retired";
}

/** What can be wrong with the signature of an entry or a checkpoint. */
export const SIGNATURE_PROBLEMS = {
  signature_missing: "its signature is lost",
  signature_invalid: "its signature does not verify",
  signature_moved: "its signature is that of another commit",
  signature_mismatch: "it is not what was signed",
  key_unknown: "the key of its signature is not registered",
  key_purpose: "the key of its signature is for another purpose",
  key_expired: "it was signed outside of the validity of the key",
  key_revoked: "it was signed after the revocation of the key",
  time_contradicted:
    "the entry before it states a time after the end of its key: one of the two clocks was wrong, or another program signed with the key after its end",
} as const;
export type SignatureProblem = keyof typeof SIGNATURE_PROBLEMS;

export const SIGNATURE_STATES = [
  "valid",
  ...(Object.keys(SIGNATURE_PROBLEMS) as SignatureProblem[]),
] as const;

/** The signature of a checkpoint, as `get` answers it on request. Then it is absent if the checkpoint is unsigned, and may be so. */
export const checkpointSignatureSchema = z.looseObject({
  state: z.enum(SIGNATURE_STATES),
  key_id: keyIdSchema.nullable(),
  signed_at: time.nullable(),
});
export type CheckpointSignature = z.infer<typeof checkpointSignatureSchema>;

/** DSSE. */
export const envelopeSchema = z.looseObject({
  payloadType: z.string(),
  payload: z.string(),
  signatures: z.array(z.looseObject({ keyid: z.string(), sig: z.string() })),
});

/** A signature of a page of entries; `seq` is the last entry that it covers. It may lie behind the page. */
export const placedEnvelopeSchema = z.looseObject({
  seq: z.int().min(1),
  /** null: the stored signature cannot be read. */
  envelope: envelopeSchema.nullable(),
});
export type PlacedEnvelope = z.infer<typeof placedEnvelopeSchema>;

export const keyRotateQuerySchema = z.looseObject({
  /** Absent: all active keys. */
  key_id: keyIdSchema.optional(),
});

export const keyRevokeQuerySchema = z.looseObject({
  key_id: keyIdSchema,
  /** The time of the earliest suspected misuse, from which signatures are rejected. Absent: that of the entry, with the allowance of {@link countsAtOnce}. */
  since: time.optional(),
  reason: z.enum(REVOCATION_REASONS),
});

export const signingKeyListSchema = z.looseObject({
  keys: z.array(signingKeySchema),
  /** Whether every entry of the store must be signed. */
  signatures_required: z.boolean(),
});
export type SigningKeyList = z.infer<typeof signingKeyListSchema>;

export const rotatedKeysSchema = z.looseObject({ keys: z.array(signingKeySchema) });
export type RotatedKeys = z.infer<typeof rotatedKeysSchema>;

export const revokedKeySchema = z.looseObject({ key: signingKeySchema });
export type RevokedKey = z.infer<typeof revokedKeySchema>;
