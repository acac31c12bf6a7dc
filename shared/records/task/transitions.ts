/**
 * Writes the transitions of one transaction: each with its audit entry, its event and its feed entry, the
 * changed handoffs, and the head. Nothing else writes a head, so no transition can lack any of these records
 * (guarantees 6 and 9).
 */
import { stateOf, type TaskRecord } from "../../lifecycle/task.ts";
import type { EventFact, HandoffUpdate, Transition } from "../../lifecycle/transition.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import type { TaskState } from "../../protocol/task.ts";
import type { Tx } from "../../store/store.ts";
import { type AuditActor, type AuditedTransition, appendAudit, type ChainHead } from "../audit/audit.ts";
import { writeHandoff } from "../handoff/record.ts";
import { eventIdOf } from "../kv/incarnation.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { appendFeed } from "../outbox/feed.ts";
import { appendEvent, appendOffer } from "../outbox/outbox.ts";
import { indexRecovery } from "../recovery/due.ts";
import { indexShred } from "../retention/shred/shred-index.ts";
import { noteTime } from "../signing/commit-signing.ts";
import { encodeHead } from "./head.ts";

/** The author of the transitions, their task and their time. */
export interface TransitionAuthor {
  readonly tenant: string;
  readonly task: string;
  readonly actor: AuditActor;
  readonly commandId: string | null;
  readonly policy?: AuditedTransition["policy"];
  readonly nowMs: number;
  readonly incarnation: number;
  /** Kept in the events, so that the trace crosses the outbox. */
  readonly traceparent: string | undefined;
}

/** Returns the head as it was written. Stamped keys come last, as the store requires. */
export function writeTransitions(
  tx: Tx,
  keys: TenantKeys,
  author: TransitionAuthor,
  before: TaskRecord | null,
  transitions: readonly Transition[],
): TaskRecord {
  const { tenant, task, actor, commandId, policy, incarnation } = author;
  const at = new Date(author.nowMs).toISOString();
  // That of the newest entry, unless it leaves the time of the last write as it is. The entry itself would be one more read.
  if (before !== null) noteTime(tx, before.updated_at);
  let chain: ChainHead | null = before && { seq: before.audit_seq, hash: before.audit_hash };
  let stateFrom: TaskState | null = before && stateOf(before);
  const entries: ChainHead[] = [];
  for (const { op, checkpoint, facts, task: after } of transitions) {
    const stateTo = stateOf(after);
    const by = { actor, at, commandId, policy };
    const entry = { ...by, op, checkpoint, facts, fence: after.fence, stateFrom, stateTo };
    chain = appendAudit(tx, keys, { tenant, task, chain }, entry);
    entries.push(chain);
    stateFrom = stateTo;
  }
  const last = transitions.at(-1);
  if (chain === null || last === undefined)
    throw new RangeError("a transaction makes at least one transition");
  const head: TaskRecord = { ...last.task, audit_hash: chain.hash };
  tx.set(keys.task(task), encodeHead(head));
  indexRecovery(tx, keys, before, head);
  indexShred(tx, before, head);
  for (const change of handoffChanges(transitions)) writeHandoff(tx, keys, change);
  for (const [i, { checkpoint, event, offer }] of transitions.entries()) {
    const changed = { checkpoint: checkpoint?.id ?? null, version: checkpoint?.version ?? null };
    appendFeed(tx, incarnation, { tenant, task, ...changed });
    appendEvent(tx, incarnation, eventOf(author, entries[i]!, at, event));
    // After the event of the offer, in the same outbox.
    if (offer !== undefined) appendOffer(tx, incarnation, offer);
  }
  return head;
}

/** Each handoff once, with its first and its last state, if several transitions change it. */
function handoffChanges(transitions: readonly Transition[]): Iterable<HandoffUpdate> {
  const changes = new Map<string, HandoffUpdate>();
  for (const { handoff } of transitions) {
    if (handoff === undefined) continue;
    const { handoff_id: id } = handoff.after;
    const earlier = changes.get(id);
    changes.set(id, earlier === undefined ? handoff : { before: earlier.before, after: handoff.after });
  }
  return changes.values();
}

function eventOf(author: TransitionAuthor, entry: ChainHead, at: string, fact: EventFact): FleetEvent {
  const { tenant, task, incarnation, traceparent } = author;
  return {
    specversion: "1.0",
    id: eventIdOf(author, entry.seq, incarnation),
    source: "fleet",
    type: fact.type,
    subject: task,
    time: at,
    datacontenttype: "application/json",
    tenant,
    sequence: entry.seq,
    audithash: entry.hash,
    ...(traceparent !== undefined && { traceparent }),
    data: fact.data,
  };
}
