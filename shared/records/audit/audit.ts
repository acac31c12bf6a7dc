/**
 * The audit trail: one entry for each transition of a task, written in the same transaction and chained by
 * hash to the previous entry. Entries hold identifiers and hashes, never the content of a checkpoint.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { CHAIN_START, entryHash } from "../../integrity/chain.ts";
import type { SignedVersion } from "../../integrity/commit-signature.ts";
import { AUDIT_VERSION } from "../../lifecycle/replay.ts";
import type { AuditFacts, AuditOp, CheckpointChange } from "../../lifecycle/transition.ts";
import { type PrincipalKind, parsePrincipal } from "../../protocol/principal.ts";
import type { AuditRecord } from "../../protocol/queries.ts";
import type { TaskState } from "../../protocol/task.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { parseSeq, type TenantKeys } from "../kv/keyspace.ts";
import { noteEntry, signedBy } from "../signing/commit-signing.ts";

export interface AuditActor {
  /** The token of a principal, or the name of a service. */
  readonly id: string;
  /** The principal whose request the service carries out. */
  readonly on_behalf_of?: string;
  readonly type: PrincipalKind | "service";
}

/** The actor of a command: the principal that its subject names. */
export function principalActor(token: string): AuditActor {
  return { id: token, type: parsePrincipal(token)?.kind ?? "agent" };
}

/**
 * The facts of a transition that its audit entry states. {@link appendAudit} adds the tenant, the task and
 * the position in the chain.
 */
export interface AuditedTransition {
  readonly op: AuditOp;
  readonly actor: AuditActor;
  readonly at: string;
  readonly commandId: string | null;
  /** The version of the rules under which the command of a principal was allowed; undefined: a service acts on its own. */
  readonly policy?: string | undefined;
  /** null: the transition concerns no checkpoint. */
  readonly checkpoint: CheckpointChange | null;
  readonly stateFrom: TaskState | null;
  readonly stateTo: TaskState;
  readonly fence: number;
  /** The facts that are specific to this kind of transition: changed fields, final status, reason. */
  readonly facts: AuditFacts;
}

export interface ChainHead {
  readonly seq: number;
  readonly hash: string;
}

/**
 * Appends an entry to the chain (null: the first entry of the task) and returns the new head of the chain.
 */
export function appendAudit(
  tx: Tx,
  keys: TenantKeys,
  place: { tenant: string; task: string; chain: ChainHead | null },
  transition: AuditedTransition,
): ChainHead {
  const seq = (place.chain?.seq ?? 0) + 1;
  const { checkpoint } = transition;
  // In the order of their names, so that the canonical form needs no sorting.
  const entry = canonicalText({
    actor: transition.actor,
    at: transition.at,
    checkpoint_id: checkpoint?.id ?? null,
    command_id: transition.commandId,
    fence: transition.fence,
    new_hash: checkpoint?.newHash ?? null,
    old_hash: checkpoint?.oldHash ?? null,
    op: transition.op,
    ...(transition.policy !== undefined && { policy: transition.policy }),
    prev: place.chain?.hash ?? CHAIN_START,
    seq,
    state_from: transition.stateFrom,
    state_to: transition.stateTo,
    task: place.task,
    tenant: place.tenant,
    v: AUDIT_VERSION,
    version: checkpoint?.version ?? null,
    ...signedBy(tx),
    ...transition.facts,
  });
  tx.set(keys.audit(place.task, seq), encode(entry));
  const hash = entryHash(entry);
  const { tenant, task } = place;
  noteEntry(tx, { tenant, task, seq, hash, at: transition.at, checkpoint: signedVersionOf(checkpoint) });
  return { seq, hash };
}

function signedVersionOf(change: CheckpointChange | null): SignedVersion | null {
  const { id, version, newHash: hash } = change ?? {};
  return id == null || version == null || hash == null ? null : { hash, id, version };
}

/** The entry in a row of the audit trail. */
export function auditRecordIn(seq: number, value: Bytes): AuditRecord {
  const entry = decode<string>(value);
  return { seq, entry, hash: entryHash(entry) };
}

/** At most `limit` entries from `fromSeq`, in order. */
export async function readAudit(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  fromSeq: number,
  limit: number,
): Promise<{ entries: AuditRecord[]; more: boolean }> {
  const { end } = keys.auditRange(task);
  const { rows, more } = await reader.getRange({ begin: keys.audit(task, fromSeq), end }, { limit });
  // The seq comes from the key, so that a verifier sees a missing entry as a gap.
  const entries = rows.map(({ key, value }) => auditRecordIn(parseSeq(key), value));
  return { entries, more };
}
