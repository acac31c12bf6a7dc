/**
 * The registry of people who have signed. A record is never deleted and never given to another person, and a revocation is for good. The transaction of a
 * signature reads the record, so none can be committed after the revocation.
 */
import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import type { EsignStatement, SignerId, SignerPage, SignerRecord } from "../../protocol/esign.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { SigningRefused } from "../../protocol/signing-refusal.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, tenantKeys } from "../kv/keyspace.ts";

const CURSOR_KIND = "signers";

/** The name of the record. */
export function signerName({ issuer, subject }: SignerId): string {
  return sha256Hex(canonicalText({ issuer, subject }));
}

const NEW = {
  printed_name: null,
  first_signed_at: null,
  last_signed_at: null,
  revoked_at: null,
  revoked_reason: null,
} as const;

/** null: the person has neither signed nor been revoked. Throws CORRUPT for a damaged record: it may have been a revocation. */
export async function findSigner(reader: Reader, tenant: string, id: SignerId): Promise<SignerRecord | null> {
  const value = await reader.get(tenantKeys(tenant).signer(signerName(id)));
  return value === undefined ? null : decodeChecked<SignerRecord>(value);
}

/** Throws SigningRefused for a person who was revoked. */
export async function noteSigner(
  tx: Tx,
  tenant: string,
  { signer: { id, printed_name } }: EsignStatement,
  at: string,
): Promise<void> {
  const known = await findSigner(tx, tenant, id);
  if (known?.revoked_at != null) throw new SigningRefused("revoked");
  const first = known?.first_signed_at ?? at;
  writeSigner(tx, tenant, {
    ...NEW,
    ...id,
    ...known,
    printed_name,
    first_signed_at: first,
    last_signed_at: at,
  });
}

/** Refuses later signatures. Earlier ones stay valid. A person may be revoked before the first signature. */
export async function revokeSigner(
  tx: Tx,
  by: TenantCaller,
  { issuer, subject, reason }: QueryParams<"signer_revoke">,
  nowMs: number,
): Promise<SignerRecord> {
  const { tenant } = by;
  const known = await findSigner(tx, tenant, { issuer, subject });
  if (known !== null && known.revoked_at !== null) return known;
  const at = new Date(nowMs).toISOString();
  const revoked = { ...NEW, issuer, subject, ...known, revoked_at: at, revoked_reason: reason };
  writeSigner(tx, tenant, revoked);
  await appendTenantAudit(tx, tenant, [actOf(by, "signer_revoke", nowMs, { issuer, subject, reason })]);
  return revoked;
}

function writeSigner(tx: Tx, tenant: string, record: SignerRecord): void {
  const { issuer, subject } = record;
  tx.set(tenantKeys(tenant).signer(signerName({ issuer, subject })), encodeChecked(record));
}

export async function listSigners(
  reader: Reader,
  tenant: string,
  { limit, cursor }: QueryParams<"signers">,
): Promise<SignerPage> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.signers();
  const from = cursor === undefined ? begin : after(keys.signer(openCursor(CURSOR_KIND, cursor)));
  const { rows, more } = await reader.getRange({ begin: from, end }, { limit });
  const last = rows.at(-1);
  return {
    signers: rows.map(({ value }) => decodeChecked<SignerRecord>(value)),
    ...(more && last !== undefined && { cursor: sealCursor(CURSOR_KIND, endingName(last.key)) }),
  };
}
