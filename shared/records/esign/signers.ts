/**
 * The registry of people who have signed. A record is never deleted and never given to another person, and a revocation is for good. The transaction of a
 * signature reads the record, so none can be committed after the revocation.
 */
import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import { passkeyIdOf } from "../../integrity/esign/passkey.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { EsignStatement } from "../../protocol/esign.ts";
import type { SignerId, SignerPage, SignerRecord } from "../../protocol/esign-signer.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { SigningRefused } from "../../protocol/signing-refusal.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, tenantKeys } from "../kv/keyspace.ts";
import { notePasskey, PASSKEYS_OF_SIGNER, readPasskeys, type UsedPasskey } from "./passkeys.ts";

const CURSOR_KIND = "signers";

/** The name of the record. */
export function signerName({ issuer, subject }: SignerId): string {
  return sha256Hex(canonicalText({ issuer, subject }));
}

/** A record of an earlier version has no `passkey_ids`. */
type StoredSigner = SignerRecord & { readonly passkey_ids?: readonly string[] };

const NEW = {
  printed_name: null,
  first_signed_at: null,
  last_signed_at: null,
  revoked_at: null,
  revoked_reason: null,
} as const;

/** null: the person has neither signed nor been revoked. Throws CORRUPT for a damaged record: it may have been a revocation. */
async function findSigner(reader: Reader, tenant: string, id: SignerId): Promise<StoredSigner | null> {
  const value = await reader.get(tenantKeys(tenant).signer(signerName(id)));
  return value === undefined ? null : decodeChecked<StoredSigner>(value);
}

interface SignedNow {
  readonly statement: EsignStatement;
  /** null: the person has logged in. */
  readonly passkey: UsedPasskey | null;
  readonly at: string;
}

/** Throws SigningRefused for a person, or a passkey, that was revoked. TOO_LARGE: the person has too many passkeys. */
export async function noteSigner(
  tx: Tx,
  by: TenantCaller,
  { statement: { signer }, passkey, at }: SignedNow,
): Promise<void> {
  const { id, printed_name } = signer;
  const { tenant } = by;
  const known = await findSigner(tx, tenant, id);
  if (known?.revoked_at != null) throw new SigningRefused("revoked");
  const isNew = passkey !== null && (await notePasskey(tx, by, signer, { used: passkey, at }));
  const passkey_ids = [...(known?.passkey_ids ?? []), ...(isNew ? [passkeyIdOf(passkey.credentialId)] : [])];
  if (passkey_ids.length > PASSKEYS_OF_SIGNER)
    throw new FleetError("TOO_LARGE", "the person has too many passkeys; use one of them", {
      details: { subject: id.subject, limit: PASSKEYS_OF_SIGNER },
    });
  const first = known?.first_signed_at ?? at;
  writeSigner(tx, tenant, {
    ...NEW,
    ...id,
    ...known,
    printed_name,
    first_signed_at: first,
    last_signed_at: at,
    ...(passkey_ids.length > 0 && { passkey_ids }),
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
  if (known !== null && known.revoked_at !== null) return withPasskeys(tx, tenant, known);
  const at = new Date(nowMs).toISOString();
  const revoked = { ...NEW, issuer, subject, ...known, revoked_at: at, revoked_reason: reason };
  writeSigner(tx, tenant, revoked);
  await appendTenantAudit(tx, tenant, [actOf(by, "signer_revoke", nowMs, { issuer, subject, reason })]);
  return withPasskeys(tx, tenant, revoked);
}

function writeSigner(tx: Tx, tenant: string, record: StoredSigner): void {
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
    signers: await Promise.all(
      rows.map(({ value }) => withPasskeys(reader, tenant, decodeChecked<StoredSigner>(value))),
    ),
    ...(more && last !== undefined && { cursor: sealCursor(CURSOR_KIND, endingName(last.key)) }),
  };
}

async function withPasskeys(
  reader: Reader,
  tenant: string,
  { passkey_ids = [], ...signer }: StoredSigner,
): Promise<SignerRecord> {
  if (passkey_ids.length === 0) return signer;
  return { ...signer, passkeys: [...(await readPasskeys(reader, tenant, passkey_ids))] };
}
