/** The command `signature_add`: the electronic signature of a person, after the verification of its proof. */
import { entryHash } from "../../integrity/chain.ts";
import { proofHash } from "../../integrity/esign/proof.ts";
import { statementHash } from "../../integrity/esign/statement.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Esigned, EsignStatement, EsignSubject } from "../../protocol/esign.ts";
import { SigningRefused } from "../../protocol/signing-refusal.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { trailPlace } from "../audit/trail-place.ts";
import { findVersion, requireSound } from "../checkpoint/lookup.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedEsignature } from "../task/idempotency.ts";
import { ESIGNATURES_OF_TASK, writeEsignature } from "./esign-record.ts";
import type { UsedPasskey } from "./passkeys.ts";
import { continuedTrail, type SignerTrail } from "./signer-trail.ts";
import { noteSigner } from "./signers.ts";

/** A statement whose proof was verified. */
export interface VerifiedEsignature {
  readonly statement: EsignStatement;
  readonly signed: Esigned;
  /** Absent: the proof is a login. */
  readonly passkey?: UsedPasskey;
}

/** With what the process has read of the acts about signers. */
interface TrailedEsignature extends VerifiedEsignature {
  readonly trail: SignerTrail;
}

/** Throws SigningRefused, NOT_FOUND for an unknown version, CORRUPT for a damaged one. `verified` null: the command was applied before. */
export async function addEsignature(
  tx: Tx,
  context: CommandContext,
  verified: TrailedEsignature | null,
): Promise<RememberedEsignature | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  if (verified === null) throw new FleetError("EXPIRED", "the command is no longer remembered");
  const { keys, head } = begun;
  const { statement, signed } = verified;
  const { subject } = statement;
  const { tenant, task } = context.actor;
  const payload = Buffer.from(signed.payload, "base64");
  const hash = statementHash(payload);
  // The head's read conflict covers the records of the task, and every signature writes the head.
  const reader = tx.snapshot;
  await requireVersion(reader, tenant, task, subject);
  if ((await reader.get(keys.esigned(task, subject.checkpoint_id, hash))) !== undefined)
    throw new SigningRefused("replayed");
  await requireRoom(reader, keys, task);
  const by = { tenant, caller: context.actor.agent };
  const at = new Date(context.nowMs).toISOString();
  // Honest changes conflict with the reads of the records. The acts are read for the others.
  const trail = await continuedTrail(reader, tenant, verified.trail);
  const passkeySeq = await noteSigner(tx, by, { statement, passkey: verified.passkey ?? null, at, trail });
  const stated = { statement, statementHash: hash, proofHash: proofHash(signed.proof), passkeySeq };
  const decision = decided(context, { task: head, handoff: null }, { type: "signature_add", ...stated });
  const seq = decision.task.audit_seq;
  const { checkpoint_id, version } = subject;
  writeEsignature(tx, keys, task, { checkpoint_id, version, signed, seq, statementHash: hash });
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      ...{ task_id: task, checkpoint_id, version, statement_hash: hash, audit_seq: seq },
      committed_at: decision.at,
    },
  });
}

/** The version is what the person saw, and so is the head, which is not older than the version. */
async function requireVersion(
  reader: Reader,
  tenant: string,
  task: string,
  { checkpoint_id: id, version, hash, head }: EsignSubject,
): Promise<void> {
  const { madeBy, hash: stored } = await signableVersion(reader, { tenant, task, id, version });
  if (stored !== hash) throw new SigningRefused("content");
  const entry = readEntry(await reader.get(tenantKeys(tenant).audit(task, head.seq)));
  if (entry === null || entryHash(entry.text) !== head.hash || head.seq < madeBy)
    throw new SigningRefused("head");
}

export interface SignableVersion {
  readonly version: number;
  readonly hash: string;
  /** The audit entry that made it. */
  readonly madeBy: number;
}

/** Throws NOT_FOUND or CORRUPT. `version` undefined: the current one. */
export async function signableVersion(
  reader: Reader,
  {
    tenant,
    task,
    id,
    version,
  }: {
    readonly tenant: string;
    readonly task: string;
    readonly id: string;
    readonly version: number | undefined;
  },
): Promise<SignableVersion> {
  const hit = await findVersion(reader, tenant, id, version);
  if (hit === null || hit.task !== task)
    throw new FleetError("NOT_FOUND", "the task has no such version", {
      details: { task_id: task, checkpoint_id: id, ...(version !== undefined && { version }) },
    });
  const { metadata, compliance } = requireSound(hit.found).checkpoint;
  const { hash, event_log_ref: ref } = compliance;
  return { version: metadata.version, hash, madeBy: trailPlace(ref, tenant, task) ?? 1 };
}

async function requireRoom(reader: Reader, keys: TenantKeys, task: string): Promise<void> {
  const { rows } = await reader.getRange(keys.esignedOf(task, null), { limit: ESIGNATURES_OF_TASK });
  if (rows.length < ESIGNATURES_OF_TASK) return;
  throw new FleetError("TOO_LARGE", "the task has too many signatures", { details: { task_id: task } });
}
