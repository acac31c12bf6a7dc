/** A handoff as the entries of the audit trail lead to it, compared with its record. */
import { isDeepStrictEqual } from "node:util";
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { FleetError } from "../../../protocol/errors.ts";
import type { Handoff } from "../../../protocol/handoff-record.ts";
import { decodeHandoff } from "../../handoff/record.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";

type Member =
  | "handoff_id"
  | "state"
  | "checkpoint_id"
  | "checkpoint_hash"
  | "to_agent_type"
  | "supersedes_recovery"
  | "attempt"
  | "fence_to_be"
  | "offer_digest"
  | "accepted_by"
  | "fence"
  | "first_checkpoint_id"
  | "deadline"
  | "requested_at"
  | "validated_at"
  | "offered_at"
  | "accepted_at"
  | "ended_at";

/** The members of the record that the entries state. A member is absent if they do not state it. */
export type HandoffFold = Readonly<Partial<Record<Member | "hash_before" | "failure_reason", unknown>>>;

/** The version that the newest entry made, and the hash of the version before it. */
export interface NewestVersion {
  readonly id: string;
  readonly hash: string;
  readonly before: string | null;
}

const BEGUN: HandoffFold = {
  attempt: 0,
  fence_to_be: null,
  offer_digest: null,
  accepted_by: null,
  fence: null,
  first_checkpoint_id: null,
  failure_reason: null,
  deadline: null,
  validated_at: null,
  offered_at: null,
  accepted_at: null,
  ended_at: null,
};

/** The newest handoff after an entry. */
export function foldHandoff(
  handoff: HandoffFold | null,
  made: NewestVersion | null,
  entry: AuditEntry,
): HandoffFold | null {
  const { op, at, handoff_id: id, handoff_to: state } = entry;
  if (typeof id !== "string" || typeof state !== "string") return handoff;
  if (op === "handoff") {
    const { from_checkpoint: checkpoint, to_agent_type, supersedes_recovery } = entry;
    return {
      ...BEGUN,
      handoff_id: id,
      state,
      checkpoint_id: checkpoint,
      ...(made?.id === checkpoint && { checkpoint_hash: made?.hash, hash_before: made?.before }),
      to_agent_type,
      supersedes_recovery: supersedes_recovery === "yes",
      requested_at: at,
    };
  }
  if (handoff?.handoff_id !== id) return handoff;
  return { ...handoff, state, ...changeOf(entry) };
}

function changeOf({ op, at, fence, ...facts }: AuditEntry): HandoffFold {
  switch (op) {
    case "validate":
      return { to_agent_type: facts.to_agent_type, validated_at: at };
    case "offer":
      return {
        attempt: facts.attempt,
        deadline: facts.deadline,
        fence_to_be: Number(fence) + 1,
        offer_digest: facts.offer_digest,
        offered_at: at,
      };
    case "acknowledge":
      return { accepted_by: facts.owner_to, fence, deadline: undefined, accepted_at: at };
    case "confirm":
      return { first_checkpoint_id: facts.first_checkpoint, deadline: null, ended_at: at };
    default:
      return { failure_reason: facts.reason, deadline: null, ended_at: at };
  }
}

/** A lost or unreadable record is found when the handoffs are verified. */
export async function verifyFoldedHandoff(scrub: TaskScrub, fold: HandoffFold): Promise<void> {
  const id = String(fold.handoff_id);
  const record = readableHandoff(id, await scrub.reader.get(scrub.keys.handoff(id)));
  if (record === null) return;
  const { failure_reason, hash_before: before, ...members } = fold;
  // A recovery reads its checkpoint before the transaction, and the checkpoint may have been finalized between the two.
  const isEarlier =
    record.recovery !== null && typeof before === "string" && record.checkpoint_hash === before;
  const expected = isEarlier ? { ...members, checkpoint_hash: before } : members;
  const differing = Object.entries(expected)
    .filter(([name, value]) => value !== undefined && !isDeepStrictEqual(value, record[name as Member]))
    .map(([name]) => name);
  if ((record.failure?.reason ?? null) !== failure_reason) differing.push("failure");
  if (differing.length === 0) return;
  scrub.note(ofTask("handoff", `handoff ${id} differs from the trail in: ${differing.join(", ")}`));
}

function readableHandoff(id: string, value: Uint8Array | undefined): Handoff | null {
  try {
    return decodeHandoff(id, value);
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}
