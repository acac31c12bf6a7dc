/**
 * The registry of people who have signed. A record is never deleted and never given to another person, and a revocation is for good. The transaction of a
 * signature reads the record, so none can be committed after the revocation.
 */
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
import { signerName } from "./signer-acts.ts";
import type { SignerTrail } from "./signer-trail.ts";

const CURSOR_KIND = "signers";

/** The passkeys that are listed with their person; the oldest revoked ones are left out. */
const PASSKEYS_LISTED = 100;
/** No page has more, but for those of its last person. */
const PASSKEYS_OF_PAGE = 250;

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
  /** Up to the newest act of the tenant. */
  readonly trail: SignerTrail;
}

/**
 * Returns the entry that records the enrolment of the passkey; null: the person has logged in. Throws SigningRefused for a person, or a passkey, that was
 * revoked. TOO_LARGE: the person has too many passkeys.
 */
export async function noteSigner(
  tx: Tx,
  by: TenantCaller,
  { statement: { signer }, passkey, at, trail }: SignedNow,
): Promise<number | null> {
  const { id, printed_name } = signer;
  const { tenant } = by;
  const known = await findSigner(tx, tenant, id);
  // Also if an older record stands in the place of the revoked one.
  if (known?.revoked_at != null || trail.revokedSigners.has(signerName(id)))
    throw new SigningRefused("revoked");
  const noted = passkey === null ? null : await notePasskey(tx, by, signer, { used: passkey, at, trail });
  const before = known?.passkey_ids ?? [];
  const passkey_ids =
    noted?.isNew === true
      ? await withNew(tx, tenant, { ids: before, trail }, passkeyIdOf(passkey!.credentialId))
      : before;
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
  return noted?.audit_seq ?? null;
}

/** Throws TOO_LARGE. A lost or damaged record counts until the passkey is revoked. */
async function withNew(
  reader: Reader,
  tenant: string,
  { ids, trail }: { readonly ids: readonly string[]; readonly trail: SignerTrail },
  added: string,
): Promise<readonly string[]> {
  const known = new Map((await readPasskeys(reader, tenant, ids)).map((one) => [one.passkey_id, one]));
  const isInUse = (id: string) => {
    const one = known.get(id);
    return one === undefined ? trail.passkeys.get(id)?.revoked === null : one.revoked_at === null;
  };
  const others = ids.filter((id) => id !== added);
  if (others.filter(isInUse).length >= PASSKEYS_OF_SIGNER)
    throw new FleetError("TOO_LARGE", "the person has too many passkeys; use one of them, or revoke one", {
      details: { limit: PASSKEYS_OF_SIGNER },
    });
  const over = others.length + 1 - PASSKEYS_LISTED;
  const dropped = new Set(others.filter((id) => !isInUse(id)).slice(0, Math.max(0, over)));
  return [...others.filter((id) => !dropped.has(id)), added];
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
  const signers: SignerRecord[] = [];
  for (let passkeys = 0; signers.length < rows.length && passkeys < PASSKEYS_OF_PAGE; ) {
    const stored = decodeChecked<StoredSigner>(rows[signers.length]!.value);
    const signer = await withPasskeys(reader, tenant, stored);
    signers.push(signer);
    passkeys += signer.passkeys?.length ?? 0;
  }
  const last = rows[signers.length - 1];
  const isMore = last !== undefined && (more || signers.length < rows.length);
  return { signers, ...(isMore && { cursor: sealCursor(CURSOR_KIND, endingName(last.key)) }) };
}

async function withPasskeys(
  reader: Reader,
  tenant: string,
  { passkey_ids = [], ...signer }: StoredSigner,
): Promise<SignerRecord> {
  if (passkey_ids.length === 0) return signer;
  return { ...signer, passkeys: [...(await readPasskeys(reader, tenant, passkey_ids))] };
}
