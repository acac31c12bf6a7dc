/**
 * Whether an agent may continue from a handoff's checkpoint: the checkpoint is sound, the handoff recorded
 * its hash, and the audit trail is unbroken from its entry to the task's newest. Reading quarantines corrupt
 * versions.
 */
import type { LimitFunction } from "p-limit";
import { CHAIN_START, createChainVerifier, entryHash } from "../../shared/integrity/chain.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { Unsound } from "../../shared/records/checkpoint/ancestry.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";

export type Verification =
  | { readonly sound: true; readonly checkpoint: Checkpoint }
  | { readonly sound: false; readonly reason: "hash_broken" | "chain_broken"; readonly details: string };

type Repository = Pick<CheckpointRepository, "get" | "audit" | "handoffActions">;
type Subject = Pick<Handoff, "tenant" | "task_id" | "checkpoint_id" | "checkpoint_hash">;

/** `limit` bounds the reads of ancestries, which may be long. Throws only when the store is unavailable. */
export async function verify(
  repository: Repository,
  handoff: Subject,
  limit: LimitFunction,
): Promise<Verification> {
  const { tenant, task_id, checkpoint_id } = handoff;
  const { handoffActions } = repository;
  try {
    const own = requireSound(await handoffActions.verifyOwn(tenant, task_id, checkpoint_id));
    const { checkpoint } = own;
    if (checkpoint.metadata.parent_ids.length > 0)
      requireSound(await limit(() => handoffActions.verifyAncestors(tenant, task_id, own)));
    await requireRecorded(repository, handoff, checkpoint);
    await requireTrail(repository, handoff, checkpoint);
    return { sound: true, checkpoint };
  } catch (error) {
    if (error instanceof Broken) return { sound: false, reason: error.reason, details: error.message };
    throw error;
  }
}

/** Throws Broken. */
function requireSound<V extends { readonly ok: true }>(found: V | Unsound): V {
  if (found.ok) return found;
  throw new Broken(found.reason, `checkpoint ${found.at} is corrupt: ${found.details}`);
}

class Broken extends Error {
  readonly reason: "hash_broken" | "chain_broken";
  constructor(reason: "hash_broken" | "chain_broken", details: string) {
    super(details);
    this.reason = reason;
  }
}

async function versionOf(
  repository: Repository,
  { tenant, checkpoint_id: id }: Subject,
  version: number,
): Promise<Checkpoint> {
  try {
    return await repository.get(tenant, id, version);
  } catch (error) {
    if (!(error instanceof FleetError) || (error.code !== "CORRUPT" && error.code !== "NOT_FOUND")) {
      throw error;
    }
    throw new Broken("hash_broken", `checkpoint ${id} is corrupt: ${error.details.reason ?? error.message}`);
  }
}

/**
 * A draft may have been changed or finalized since the request; the recorded hash is that of an earlier
 * version then.
 */
async function requireRecorded(repository: Repository, handoff: Subject, now: Checkpoint): Promise<void> {
  const { checkpoint_id: id, checkpoint_hash: recorded } = handoff;
  if (now.compliance.hash === recorded) return;
  for (let version = now.metadata.version - 1; version >= 1; version -= 1) {
    if ((await versionOf(repository, handoff, version)).compliance.hash === recorded) return;
  }
  throw new Broken("hash_broken", `no version of checkpoint ${id} has the recorded hash`);
}

/** Starts at the checkpoint's own entry: the hash that this entry names covers the entries before it. */
async function requireTrail(repository: Repository, handoff: Subject, checkpoint: Checkpoint): Promise<void> {
  const { tenant, task_id } = handoff;
  const own = ownEntry(checkpoint);
  const verifier = createChainVerifier(await linkBefore(repository, handoff, own));
  let recorded = false;
  for (let fromSeq = own; ; ) {
    const page = await repository.audit(tenant, {
      task_id,
      from_seq: fromSeq,
      limit: LIMITS.audit_limit_max,
    });
    for (const { seq, entry } of page.entries) {
      verifier.add({ seq, entry });
      recorded ||= seq === own && isOf(entry, checkpoint);
    }
    const last = page.entries.at(-1);
    if (page.more && last !== undefined) {
      fromSeq = last.seq + 1;
      continue;
    }
    const { audit_seq: seq, audit_hash: hash } = page.task;
    const problem = verifier.finish({ seq, hash }).problems[0];
    if (problem !== undefined) {
      throw new Broken("chain_broken", `the audit trail has a ${problem.problem} at entry ${problem.seq}`);
    }
    if (!recorded) throw new Broken("chain_broken", `audit entry ${own} does not record the checkpoint`);
    return;
  }
}

async function linkBefore(
  repository: Repository,
  { tenant, task_id }: Subject,
  own: number,
): Promise<{ seq: number; hash: string }> {
  if (own === 1) return { seq: 0, hash: CHAIN_START };
  const { entries } = await repository.audit(tenant, { task_id, from_seq: own - 1, limit: 1 });
  const before = entries[0];
  if (before?.seq !== own - 1) throw new Broken("chain_broken", `audit entry ${own - 1} is missing`);
  return { seq: before.seq, hash: entryHash(before.entry) };
}

/** The number of the audit entry that recorded this version: the end of `audit/<tenant>/<task>#<seq>`. */
function ownEntry({ compliance, metadata }: Checkpoint): number {
  const seq = Number(/#(\d+)$/.exec(compliance.event_log_ref ?? "")?.[1] ?? Number.NaN);
  if (Number.isSafeInteger(seq) && seq >= 1) return seq;
  const id = metadata.checkpoint_id;
  throw new Broken("chain_broken", `checkpoint ${id} does not name its audit entry`);
}

function isOf(entry: string, { metadata, compliance }: Checkpoint): boolean {
  try {
    const { checkpoint_id, new_hash } = JSON.parse(entry) as Record<string, unknown>;
    return checkpoint_id === metadata.checkpoint_id && new_hash === compliance.hash;
  } catch {
    return false;
  }
}
