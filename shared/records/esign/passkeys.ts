/**
 * The registry of passkeys. A record is never deleted and never given to another person, and a revocation is for good. The transaction of a signature reads and
 * writes the record, so none can be committed after the revocation, and the count of an authenticator never goes back.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { enrolmentFacts, enrolmentHash, statesEnrolment } from "../../integrity/esign/enrolment-act.ts";
import { enrolmentFrom, passkeyIdOf } from "../../integrity/esign/passkey.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { EsignStatement } from "../../protocol/esign.ts";
import { type StoredEnrolment, type StoredPasskey, storedPasskeySchema } from "../../protocol/esign-proof.ts";
import type { PasskeySummary, RevokedPasskey, SignerId } from "../../protocol/esign-signer.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { SigningRefused } from "../../protocol/signing-refusal.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import { decodeChecked, encodeChecked, readable, UnreadableValue } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import type { PasskeyAct } from "./signer-acts.ts";
import { continuedTrail, type SignerTrail } from "./signer-trail.ts";

/** Of one person, without the revoked ones. */
export const PASSKEYS_OF_SIGNER = 20;

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
  const value = await reader.get(tenantKeys(tenant).passkey(passkeyIdOf(credentialId)));
  return value === undefined ? null : decodePasskey(value);
}

interface PasskeyUse {
  readonly used: UsedPasskey;
  readonly at: string;
  /** Up to the newest act of the tenant. */
  readonly trail: SignerTrail;
}

interface NotedPasskey {
  readonly isNew: boolean;
  /** The entry of the tenant's audit chain that records the enrolment. */
  readonly audit_seq: number;
}

/** Enrols the passkey with its first signature. Throws SigningRefused. */
export async function notePasskey(
  tx: Tx,
  by: TenantCaller,
  { id: signer, printed_name }: EsignStatement["signer"],
  { used, at, trail }: PasskeyUse,
): Promise<NotedPasskey> {
  const { credentialId, rpId, enrolment, signCount } = used;
  const known = await findPasskey(tx, by.tenant, credentialId);
  requireRecorded(trail, { credentialId, signer }, known);
  if (known !== null) requireUsable(known, used);
  const facts = enrolmentFacts(signer, credentialId, enrolment);
  const act = actOf(by, "passkey_add", Date.parse(at), { ...facts });
  const audit_seq = known?.audit_seq ?? (await appendTenantAudit(tx, by.tenant, [act]))!.seq;
  writePasskey(tx, by.tenant, {
    ...(known ?? {
      ...{ passkey_id: facts.passkey_id, credential_id: credentialId, rp_id: rpId },
      ...{ signer, printed_name, enrolment, audit_seq, enrolled_at: at, enrolled_by: by.caller },
      ...{ revoked_at: null, revoked_reason: null, revoked_audit_seq: null },
    }),
    last_used_at: at,
    sign_count: signCount,
  });
  return { isNew: known === null, audit_seq };
}

/** The record must be what a signed entry states. Throws SigningRefused. */
function requireRecorded(
  trail: SignerTrail,
  { credentialId, signer }: { readonly credentialId: string; readonly signer: SignerId },
  known: StoredPasskey | null,
): void {
  const act = trail.passkeys.get(passkeyIdOf(credentialId));
  // Also if an older record, or none, stands in the place of the revoked one.
  if (act !== undefined && act.revoked !== null) throw new SigningRefused("passkey_revoked");
  if (known === null) {
    // The record is lost. Its person may enrol it again, and no other one.
    const isOther = act !== undefined && (act.issuer !== signer.issuer || act.subject !== signer.subject);
    if (isOther) throw new SigningRefused("passkey");
    return;
  }
  const isProved = act !== undefined && act.seq > trail.brokenAt && isRecordedBy(known, act);
  if (!isProved) throw new SigningRefused("passkey_record");
}

/** Whether the act states this record. It binds the enrolment, and the enrolment all else that no use and no revocation changes. */
export function isRecordedBy(record: StoredPasskey, act: PasskeyAct): boolean {
  const { audit_seq, enrolled_at, enrolled_by, passkey_id, credential_id, rp_id, signer, enrolment } = record;
  const { passkey, signer: stated } = enrolmentFrom(Buffer.from(enrolment.payload, "base64")) ?? {};
  return (
    act.seq === audit_seq &&
    act.at === enrolled_at &&
    act.by === enrolled_by &&
    act.passkey_id === passkey_id &&
    statesEnrolment(act, enrolmentFacts(signer, credential_id, enrolment)) &&
    passkey?.credential_id === credential_id &&
    passkey.rp_id === rp_id &&
    canonicalText(stated ?? null) === canonicalText({ id: signer, printed_name: record.printed_name })
  );
}

/** The enrolment that was verified must be the stored one: so the person is that of the record, and its key too. */
function requireUsable(known: StoredPasskey, { enrolment, signCount }: UsedPasskey): void {
  if (enrolmentHash(known.enrolment) !== enrolmentHash(enrolment)) throw new SigningRefused("passkey");
  if (known.revoked_at !== null) throw new SigningRefused("passkey_revoked");
  const counts = signCount > 0 || known.sign_count > 0;
  if (counts && signCount <= known.sign_count) throw new SigningRefused("counter");
}

/** null: the record is lost or damaged, or that of another passkey. */
export async function readPasskey(reader: Reader, tenant: string, id: string): Promise<StoredPasskey | null> {
  return readableOf(id, await reader.get(tenantKeys(tenant).passkey(id)));
}

function readableOf(id: string | undefined, value: Bytes | undefined): StoredPasskey | null {
  const record = value === undefined ? null : readable(() => decodePasskey(value));
  return record?.passkey_id === id ? record : null;
}

/** Refuses later signatures. Earlier ones stay valid. Without its record, the enrolment in the audit chain names the passkey. */
export async function revokePasskey(
  tx: Tx,
  by: TenantCaller,
  { passkey_id, reason }: QueryParams<"passkey_revoke">,
  { nowMs, trail }: { readonly nowMs: number; readonly trail: SignerTrail },
): Promise<RevokedPasskey["passkey"]> {
  const { tenant } = by;
  const known = await readPasskey(tx, tenant, passkey_id);
  const { signer, ...passkey } =
    known === null
      ? enrolledIn(await continuedTrail(tx.snapshot, tenant, trail), passkey_id)
      : { ...summaryOf(known), signer: known.signer };
  if (passkey.revoked_at !== null) return passkey;
  const facts = { ...signer, passkey_id, reason };
  const head = await appendTenantAudit(tx, tenant, [actOf(by, "passkey_revoke", nowMs, facts)]);
  const revoked_at = new Date(nowMs).toISOString();
  const ended = { revoked_at, revoked_reason: reason, revoked_audit_seq: head!.seq };
  if (known !== null) writePasskey(tx, tenant, { ...known, ...ended });
  return { ...passkey, ...ended };
}

/** What the acts state. Throws NOT_FOUND. */
function enrolledIn(
  trail: SignerTrail,
  passkey_id: string,
): RevokedPasskey["passkey"] & { readonly signer: SignerId } {
  const act = trail.passkeys.get(passkey_id);
  if (act === undefined)
    throw new FleetError("NOT_FOUND", "no passkey with this id is enrolled", { details: { passkey_id } });
  const { issuer, subject, at, by, seq, revoked } = act;
  return {
    ...{ signer: { issuer, subject }, passkey_id, enrolled_at: at, enrolled_by: by, audit_seq: seq },
    ...{ credential_id: null, rp_id: null, printed_name: null, last_used_at: null },
    revoked_at: revoked?.at ?? null,
    revoked_reason: revoked?.reason ?? null,
    revoked_audit_seq: revoked?.seq ?? null,
  };
}

/** The records that can be read. With a damaged one no one signs, and it must not keep its signer from being shown. */
export async function readPasskeys(
  reader: Reader,
  tenant: string,
  ids: readonly string[],
): Promise<readonly PasskeySummary[]> {
  const values = await reader.getMany(ids.map((id) => tenantKeys(tenant).passkey(id)));
  return values.flatMap((value, i) => {
    const one = readableOf(ids[i], value);
    return one === null ? [] : [summaryOf(one)];
  });
}

function writePasskey(tx: Tx, tenant: string, record: StoredPasskey): void {
  tx.set(tenantKeys(tenant).passkey(record.passkey_id), encodeChecked(record));
}

/** Throws for a damaged record. */
export function decodePasskey(value: Bytes): StoredPasskey {
  const { success, data } = storedPasskeySchema.safeParse(decodeChecked<unknown>(value));
  if (!success) throw new UnreadableValue("the value is no record of a passkey");
  return data;
}

const summaryOf = ({
  signer: _,
  enrolment: __,
  sign_count: ___,
  ...summary
}: StoredPasskey): PasskeySummary => summary;
