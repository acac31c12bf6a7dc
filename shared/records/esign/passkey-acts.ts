/** The acts in the audit chain of a tenant that a signature by a passkey rests on, with the signatures of their commits. */
import type { SignedAct } from "../../protocol/esign.ts";
import type { Reader } from "../../store/store.ts";
import { readable } from "../kv/codec.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { readEnvelopes } from "../signing/stored-signatures.ts";
import { decodePasskey } from "./passkeys.ts";
import { signerActIn } from "./signer-acts.ts";

/** `seq`: of the enrolment, as the entry of the signature states it. Empty: there is no such act. */
export async function readPasskeyActs(
  reader: Reader,
  tenant: string,
  seq: unknown,
): Promise<readonly SignedAct[]> {
  if (typeof seq !== "number" || !Number.isSafeInteger(seq) || seq < 1) return [];
  const keys = tenantKeys(tenant);
  const added = await readAct(reader, keys, seq);
  const facts = readEntry(await reader.get(keys.tenantAudit(seq)))?.facts;
  const id = signerActIn(tenant, seq, facts)?.passkey_id ?? "";
  if (added === null || id === "") return [];
  const value = await reader.get(keys.passkey(id));
  // A lost or damaged record is found by the scrub.
  const record = value === undefined ? null : readable(() => decodePasskey(value));
  const revokedSeq = record?.revoked_audit_seq ?? null;
  const revoked = revokedSeq === null ? null : await readAct(reader, keys, revokedSeq);
  return revoked === null ? [added] : [added, revoked];
}

async function readAct(reader: Reader, keys: TenantKeys, seq: number): Promise<SignedAct | null> {
  const text = readEntry(await reader.get(keys.tenantAudit(seq)))?.text;
  if (text === undefined) return null;
  const [after] = await readEnvelopes(reader, keys, { task: null, from: seq, count: 0 });
  return { seq, entry: text, end: after?.seq ?? seq, signature: after?.envelope ?? null };
}
