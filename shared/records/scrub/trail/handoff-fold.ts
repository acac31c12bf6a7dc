/** A handoff as the entries of the audit trail lead to it, compared with its record. */
import { isDeepStrictEqual } from "node:util";
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import type { Handoff } from "../../../protocol/handoff-record.ts";
import { isId } from "../../../protocol/ids.ts";
import { hashInRow } from "../../checkpoint/body.ts";
import { decodePlace } from "../../checkpoint/checkpoint-location.ts";
import { decodeOrder } from "../../checkpoint/order.ts";
import { soundHandoff } from "../../handoff/record.ts";
import { readable } from "../../kv/codec.ts";
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
export type HandoffFold = Readonly<Partial<Record<Member | "from_hash" | "failure_reason", unknown>>>;

/** The version that the newest entry made. */
export interface NewestVersion {
  readonly id: string;
  readonly hash: string;
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
    const { from_checkpoint: checkpoint, from_hash, to_agent_type, supersedes_recovery } = entry;
    return {
      ...BEGUN,
      handoff_id: id,
      state,
      checkpoint_id: checkpoint,
      ...(made?.id === checkpoint && { checkpoint_hash: made?.hash }),
      ...(from_hash !== undefined && { from_hash }),
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
  const record = soundHandoff(id, await scrub.reader.get(scrub.keys.handoff(id)));
  if (record === null) return;
  const { failure_reason, checkpoint_hash: _made, from_hash: _stated, ...members } = fold;
  const differing = Object.entries(members)
    .filter(([name, value]) => value !== undefined && !isDeepStrictEqual(value, record[name as Member]))
    .map(([name]) => name);
  if (await isOfOtherHash(scrub, fold, record)) differing.push("checkpoint_hash");
  if ((record.failure?.reason ?? null) !== failure_reason) differing.push("failure");
  if (differing.length === 0) return;
  scrub.note(ofTask("handoff", `handoff ${id} differs from the trail in: ${differing.join(", ")}`));
}

/**
 * Entries of earlier versions of the fleet do not state the hash. Their recoveries read the checkpoint before the transaction, so it
 * may be the hash of an earlier version than the newest one, but it must be that of one.
 */
async function isOfOtherHash(scrub: TaskScrub, fold: HandoffFold, record: Handoff): Promise<boolean> {
  const { checkpoint_id: id, checkpoint_hash: made, from_hash: stated } = fold;
  const { checkpoint_hash: hash, recovery } = record;
  if (hash === (made ?? stated)) return false;
  if (stated !== undefined || (made !== undefined && recovery === null)) return true;
  return isId(id) && (await isHashOfNone(scrub, id, hash));
}

/** Earlier versions of one checkpoint that are read at once, and at all. */
const VERSIONS_PAGE = 16;
const VERSIONS_MAX = 128;

/** Whether no version of the checkpoint has the hash. A lost version may have had it, and is found when the checkpoint is verified. */
async function isHashOfNone({ reader, keys, task }: TaskScrub, id: string, hash: string): Promise<boolean> {
  const location = await reader.get(keys.id(id));
  const place = location === undefined ? null : readable(() => decodePlace(location));
  const entry = place === null ? null : decodeOrder(await reader.get(keys.order(task, place.seq)));
  if (entry === null || entry.hash === hash) return false;
  const oldest = Math.max(1, entry.version - VERSIONS_MAX);
  for (let end = entry.version; end > oldest; end -= VERSIONS_PAGE) {
    const begin = Math.max(oldest, end - VERSIONS_PAGE);
    const wanted = Array.from({ length: end - begin }, (_, n) => keys.version(task, id, begin + n));
    const rows = await reader.getMany(wanted);
    const hashes = rows.map((row) => (row === undefined ? null : hashInRow(row)));
    if (hashes.includes(hash) || hashes.includes(null)) return false;
  }
  return oldest === 1;
}
