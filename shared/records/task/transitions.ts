/**
 * The transitions of a task that one transaction makes, in their order: each with its audit entry, its event and its feed entry, and
 * then the head that they come to. Nothing else writes a head, so no transition can lack any of them (guarantees 6 and 9).
 */

import { FleetError } from "../../protocol/errors.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { type Block, TASK_TABLE, type Task, type TaskEvent, type TaskState } from "../../protocol/task.ts";
import type { Tx } from "../../store/store.ts";
import { type AuditActor, appendAudit, type ChainHead, type Transition } from "../audit/audit.ts";
import { encodeChecked } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { appendFeed } from "../outbox/feed.ts";
import { appendEvent, type EventFact } from "../outbox/outbox.ts";
import { keepRecovery } from "../recovery/due.ts";

/** A head but for the end of its audit chain, which is added as it is written. */
export type Head = Omit<Task, "audit_seq" | "audit_hash" | "block"> & {
  /** `seq` null: of the first entry that has it so. */
  readonly block: (Omit<Block, "seq"> & { readonly seq: number | null }) | null;
};

/** One transition, as whoever makes it says it. */
export interface Step {
  /** The head as it shall be after it. */
  readonly head: Head;
  readonly transition: Omit<Transition, "actor" | "at" | "commandId" | "fence" | "stateFrom" | "stateTo">;
  readonly event: EventFact;
}

/** Who makes the transitions, on which task, and when. */
export interface Maker {
  readonly tenant: string;
  readonly task: string;
  readonly actor: AuditActor;
  readonly commandId: string | null;
  readonly nowMs: number;
  readonly incarnation: number;
  /** Kept in the events, so that the trace crosses the outbox. */
  readonly traceparent: string | undefined;
}

/** Stamped keys come last, as the store asks. */
export function advance(
  tx: Tx,
  keys: TenantKeys,
  maker: Maker,
  before: Task | null,
  steps: readonly Step[],
): void {
  const { tenant, task, actor, commandId } = maker;
  const at = new Date(maker.nowMs).toISOString();
  const events: FleetEvent[] = [];
  let chain: ChainHead | null = before && { seq: before.audit_seq, hash: before.audit_hash };
  let stateFrom: TaskState | null = before?.state ?? null;
  let blockSeq: number | null = null;
  for (const { head, transition, event } of steps) {
    const entry = { ...transition, actor, at, commandId, fence: head.fence, stateFrom, stateTo: head.state };
    chain = appendAudit(tx, keys, { tenant, task, chain }, entry);
    stateFrom = head.state;
    if (head.block?.seq === null) blockSeq ??= chain.seq;
    events.push(eventOf(maker, chain.seq, at, event));
  }
  const last = steps.at(-1);
  if (chain === null || last === undefined)
    throw new RangeError("a transaction makes at least one transition");
  const { block } = last.head;
  const head: Task = {
    ...last.head,
    block: block && { ...block, seq: block.seq ?? blockSeq ?? chain.seq },
    audit_seq: chain.seq,
    audit_hash: chain.hash,
  };
  tx.set(keys.task(task), encodeChecked(head));
  keepRecovery(tx, keys, before, head);
  for (const [i, event] of events.entries()) {
    const { checkpointId, version } = (steps[i] as Step).transition;
    appendFeed(tx, maker.incarnation, { tenant, task, checkpoint: checkpointId, version });
    appendEvent(tx, maker.incarnation, event);
  }
}

function eventOf(maker: Maker, auditSeq: number, at: string, fact: EventFact): FleetEvent {
  const { tenant, task, traceparent } = maker;
  return {
    specversion: "1.0",
    id: `${tenant}/${task}/${auditSeq}`,
    source: "fleet",
    type: fact.type,
    subject: task,
    time: at,
    datacontenttype: "application/json",
    tenant,
    sequence: auditSeq,
    ...(traceparent !== undefined && { traceparent }),
    data: fact.data,
  };
}

/** The state after `event`, the same when there is none; throws CONFLICT when the table refuses it. */
export function nextState(head: Pick<Task, "state"> | null, event: TaskEvent | null): TaskState {
  if (head === null) return "active";
  if (event === null) return head.state;
  const next = TASK_TABLE[head.state][event];
  if (next === null) {
    throw new FleetError("CONFLICT", "the task's state does not allow this", {
      details: { state: head.state, event },
    });
  }
  return next;
}

/** What the entry of a transition says that is about the task alone. */
export const OF_NO_CHECKPOINT = { checkpointId: null, version: null, oldHash: null, newHash: null } as const;
