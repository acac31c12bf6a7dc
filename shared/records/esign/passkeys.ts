/**
 * The registry of passkeys. A record is never deleted and never given to another person, and a revocation is for good. The transaction of a signature reads and
 * writes the record, so none can be committed after the revocation, and the count of an authenticator never goes back.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { passkeyIdOf } from "../../integrity/esign/passkey.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { EsignStatement } from "../../protocol/esign.ts";
import type { StoredEnrolment } from "../../protocol/esign-proof.ts";
import type { PasskeySummary, SignerId } from "../../protocol/esign-signer.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { SigningRefused } from "../../protocol/signing-refusal.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import { decodeChecked, encodeChecked, readable } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";

/** Of one person, with the revoked ones. */
export const PASSKEYS_OF_SIGNER = 20;

interface StoredPasskey extends PasskeySummary {
  readonly signer: SignerId;
  readonly enrolment: StoredEnrolment;
  readonly sign_count: number;
}

/** A verified use of a passkey for a signature. */
export interface UsedPasskey {
  readonly credentialId: string;
  readonly rpId: string;
  readonly enrolment: StoredEnrolment;
  /** 0: the authenticator does not count. */
  readonly signCount: number;
}

/** null: the passkey is not enrolled. Throws CORRUPT for a damaged record: it may have been a revocation. */
export async function findPasskey(
  reader: Reader,
  tenant: string,
  credentialId: string,
): Promise<StoredPasskey | null> {
  return decodePasskey(await reader.get(tenantKeys(tenant).passkey(passkeyIdOf(credentialId))));
}

/** Enrols the passkey with its first signature. Returns whether it is new. Throws SigningRefused. */
export async function notePasskey(
  tx: Tx,
  by: TenantCaller,
  { id: signer, printed_name }: EsignStatement["signer"],
  { used, at }: { readonly used: UsedPasskey; readonly at: string },
): Promise<boolean> {
  const { credentialId, rpId, enrolment, signCount } = used;
  const known = await findPasskey(tx, by.tenant, credentialId);
  if (known !== null) requireUsable(known, used);
  const passkey_id = passkeyIdOf(credentialId);
  const isNew = known === null;
  writePasskey(tx, by.tenant, {
    ...(known ?? {
      ...{ passkey_id, credential_id: credentialId, rp_id: rpId, signer, printed_name, enrolment },
      ...{ enrolled_at: at, enrolled_by: by.caller, revoked_at: null, revoked_reason: null },
    }),
    last_used_at: at,
    sign_count: signCount,
  });
  if (isNew) {
    const { issuer, subject } = signer;
    const facts = { issuer, subject, passkey_id, enrolment: sha256Hex(enrolment.payload) };
    await appendTenantAudit(tx, by.tenant, [actOf(by, "passkey_add", Date.parse(at), facts)]);
  }
  return isNew;
}

/** The enrolment that was verified must be the stored one: so the person is that of the record, and its key too. */
function requireUsable(known: StoredPasskey, { enrolment, signCount }: UsedPasskey): void {
  if (known.enrolment.payload !== enrolment.payload) throw new SigningRefused("passkey");
  if (known.revoked_at !== null) throw new SigningRefused("passkey_revoked");
  const counts = signCount > 0 || known.sign_count > 0;
  if (counts && signCount <= known.sign_count) throw new SigningRefused("counter");
}

/** Refuses later signatures. Earlier ones stay valid. */
export async function revokePasskey(
  tx: Tx,
  by: TenantCaller,
  { passkey_id, reason }: QueryParams<"passkey_revoke">,
  nowMs: number,
): Promise<PasskeySummary> {
  const known = decodePasskey(await tx.get(tenantKeys(by.tenant).passkey(passkey_id)));
  if (known === null)
    throw new FleetError("NOT_FOUND", "no passkey with this id is enrolled", { details: { passkey_id } });
  if (known.revoked_at !== null) return summaryOf(known);
  const revoked = { ...known, revoked_at: new Date(nowMs).toISOString(), revoked_reason: reason };
  writePasskey(tx, by.tenant, revoked);
  const { issuer, subject } = known.signer;
  const facts = { issuer, subject, passkey_id, reason };
  await appendTenantAudit(tx, by.tenant, [actOf(by, "passkey_revoke", nowMs, facts)]);
  return summaryOf(revoked);
}

export async function readPasskeys(
  reader: Reader,
  tenant: string,
  ids: readonly string[],
): Promise<readonly PasskeySummary[]> {
  const values = await reader.getMany(ids.map((id) => tenantKeys(tenant).passkey(id)));
  return values.flatMap((value) => {
    // With a damaged one no one signs, and it must not keep its signer from being shown and revoked.
    const one = readable(() => decodePasskey(value));
    return one === null ? [] : [summaryOf(one)];
  });
}

function writePasskey(tx: Tx, tenant: string, record: StoredPasskey): void {
  tx.set(tenantKeys(tenant).passkey(record.passkey_id), encodeChecked(record));
}

const decodePasskey = (value: Parameters<typeof decodeChecked>[0] | undefined): StoredPasskey | null =>
  value === undefined ? null : decodeChecked<StoredPasskey>(value);

const summaryOf = ({
  signer: _,
  enrolment: __,
  sign_count: ___,
  ...summary
}: StoredPasskey): PasskeySummary => summary;
