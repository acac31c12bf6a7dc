/** Verifies the records of passkeys, and of revoked signers, against the acts in the audit chain of the tenant, in both directions. */
import { NO_TASK } from "../../../protocol/alerts.ts";
import type { Bytes } from "../../../store/store.ts";
import { decodePasskey, isRecordedBy } from "../../esign/passkeys.ts";
import { type SignerAct, signerActIn, signerName } from "../../esign/signer-acts.ts";
import { decodeChecked, readable } from "../../kv/codec.ts";
import { after, tenantKeys } from "../../kv/keyspace.ts";
import { ofTask, type ScrubStep, TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "./entries.ts";

/** The number of records in one read. */
const SLICE = 64;

/** Verifies that the records still have what an entry of the chain did to them. */
export async function verifySignerAct(scrub: TaskScrub, seq: number, facts: object): Promise<void> {
  const act = signerActIn(scrub.tenant, seq, facts);
  if (act === null) return;
  const problem =
    act.action === "signer_revoke" ? await signerProblem(scrub, act) : await passkeyProblem(scrub, act);
  if (problem !== null) scrub.note(ofTask("esignature", problem));
}

async function signerProblem({ reader, keys }: TaskScrub, act: SignerAct): Promise<string | null> {
  const value = await reader.get(keys.signer(signerName(act)));
  const record =
    value === undefined
      ? null
      : readable(() => decodeChecked<{ readonly revoked_at?: unknown } | null>(value));
  return typeof record?.revoked_at === "string"
    ? null
    : `the record of a signer lacks the revocation of entry ${act.seq}`;
}

async function passkeyProblem(
  { reader, keys }: TaskScrub,
  { action, seq, passkey_id: id }: SignerAct,
): Promise<string | null> {
  const value = await reader.get(keys.passkey(id));
  if (value === undefined) return `the passkey of entry ${seq} is lost`;
  const record = readable(() => decodePasskey(value));
  // A damaged one is found by itself.
  if (record === null) return null;
  if (action === "passkey_add")
    return record.audit_seq >= seq ? null : `passkey ${shortOf(id)}: the record is older than entry ${seq}`;
  const isRevoked = record.revoked_at !== null && record.revoked_audit_seq === seq;
  return isRevoked ? null : `passkey ${shortOf(id)}: the record lacks the revocation of entry ${seq}`;
}

/** Returns the key after which the next call continues; null: all records of the tenant are verified. */
export async function verifyPasskeyRecords(
  step: ScrubStep,
  tenant: string,
  from: Bytes | null,
): Promise<Bytes | null> {
  const keys = tenantKeys(tenant);
  const scrub = new TaskScrub(step, tenant, NO_TASK, { canMark: false, found: 0 });
  const { begin, end } = keys.passkeys();
  const { rows, more } = await step.reader.getRange(
    { begin: from === null ? begin : after(from), end },
    { limit: SLICE },
  );
  for (const { key, value } of rows) {
    const problem = await recordProblem(scrub, key, value);
    if (problem !== null) scrub.note(ofTask("esignature", problem));
  }
  return more ? (rows.at(-1)?.key ?? null) : null;
}

async function recordProblem(
  { reader, keys, tenant }: TaskScrub,
  key: Bytes,
  value: Bytes,
): Promise<string | null> {
  const record = readable(() => decodePasskey(value));
  if (record === null)
    return `the record of passkey ${Buffer.from(key).toString("hex").slice(-16)} cannot be read`;
  const { passkey_id: id, audit_seq: seq, revoked_at, revoked_audit_seq } = record;
  if (Buffer.compare(key, keys.passkey(id)) !== 0) return `passkey ${shortOf(id)}: the record is another one`;
  const actAt = async (at: number) =>
    signerActIn(tenant, at, readEntry(await reader.get(keys.tenantAudit(at)))?.facts);
  const added = await actAt(seq);
  if (added?.action !== "passkey_add" || !isRecordedBy(record, added))
    return `passkey ${shortOf(id)}: no audit entry records its enrolment`;
  if (revoked_at === null) return null;
  const revoked = await actAt(revoked_audit_seq ?? 0);
  const isRevoked = revoked?.action === "passkey_revoke" && revoked.passkey_id === id;
  return isRevoked ? null : `passkey ${shortOf(id)}: no audit entry records its revocation`;
}

const shortOf = (id: string): string => id.slice(0, 16);
