/**
 * What every command's transaction has in common. `begin` makes all reads and refuses what must be refused; `complete` makes the
 * writes that no transition may lack: task head, audit entry, event, feed entry, idempotency record. Because they share one
 * transaction, a crash at any point leaves either all of them or none (guarantees 1, 2, 3, 6 and 9).
 */
import type { Actor } from "../protocol/commands.ts";
import { FleetError, invalid } from "../protocol/errors.ts";
import type { FleetEvent } from "../protocol/events.ts";
import { TASK_TABLE, type Task, type TaskEvent, type TaskState } from "../protocol/task.ts";
import type { Bytes, Tx } from "../store/store.ts";
import { appendAudit, type Transition } from "./audit.ts";
import { encodeChecked } from "./codec.ts";
import { forgottenKey, requireRemembered } from "./expiry.ts";
import { appendFeed } from "./feed.ts";
import { decodeHead } from "./head.ts";
import { type RememberedAnswer, recall, remember } from "./idempotency.ts";
import { type TenantKeys, tenantKeys } from "./keyspace.ts";
import { appendEvent, type EventFact } from "./outbox.ts";
import type { ThresholdsOf } from "./triggers.ts";

/** One command as a verb sees it: who, what, and the hash that tells a retry from a misuse of its id. */
export interface CommandContext {
  readonly actor: Actor;
  readonly commandId: string;
  readonly fence: number | undefined;
  /** SHA-256 of the request's content, hex. */
  readonly requestHash: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly thresholdsOf: ThresholdsOf;
  /** Trace of the caller, kept in the event so that it crosses the outbox. */
  readonly traceparent: string | undefined;
}

export interface Begun {
  readonly keys: TenantKeys;
  readonly head: Task | null;
  /** Values of the keys that the verb asked for, in their order. */
  readonly values: readonly (Bytes | undefined)[];
}

export type Replay = { readonly replay: { answer: RememberedAnswer; position: string } };

/**
 * Reads the idempotency record, up to when records may be gone, the task's head and `wanted` at once. `supersedes`: the command is there to take the task from
 * whoever owns it, so it needs no fence; one that is given must still be the current one.
 */
export async function begin(
  tx: Tx,
  context: CommandContext,
  wanted: (keys: TenantKeys) => readonly Bytes[],
  { supersedes = false } = {},
): Promise<Begun | Replay> {
  const { tenant, task } = context.actor;
  const keys = tenantKeys(tenant);
  const [seen, forgotten, head, ...values] = await tx.getMany([
    keys.command(context.commandId),
    forgottenKey(),
    keys.task(task),
    ...wanted(keys),
  ]);
  if (seen) return { replay: recall(seen, context.requestHash) };
  requireRemembered(context.commandId, forgotten, context.nowMs);
  const known = head ? decodeHead(head) : null;
  await requireNewest(tx, keys, task, known);
  requireFence(known, context.fence, supersedes);
  return { keys, head: known, values };
}

/**
 * The head must be the newest: where the trail goes on behind it, the head was lost or rolled back, and going on from it would
 * write over what was committed. A person decides.
 */
export async function requireNewest(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  head: Task | null,
): Promise<void> {
  // Whoever writes these keys also writes the head, so the head's read conflict covers them.
  const [audit, order] = await tx.snapshot.getMany([
    keys.audit(task, (head?.audit_seq ?? 0) + 1),
    keys.order(task, (head?.seq ?? 0) + 1),
  ]);
  if (audit === undefined && order === undefined) return;
  throw new FleetError("CORRUPT", "the task's head is older than its records; a person must decide", {
    details: { task_id: task, head_seq: head?.seq ?? null, head_audit_seq: head?.audit_seq ?? null },
  });
}

/**
 * The fence alone decides, not the agent's name: who was given the current fence (a tool, a hook) acts for the owner, and the audit
 * trail says who it was. A task without owner asks for none, but refuses an old one.
 */
export function requireFence(head: Task | null, fence: number | undefined, supersedes: boolean): void {
  const current = head?.fence ?? 0;
  const owner = head?.owner ?? null;
  if (fence === current) return;
  if (fence === undefined) {
    if (owner === null || supersedes) return;
    throw new FleetError("FENCED", "the task has an owner; its fence is needed", {
      details: { owner, fence: current, given: null },
    });
  }
  if (fence > current) throw invalid("fence", `at most the task's fence, ${current}`, fence);
  throw new FleetError("FENCED", "another agent has taken this task over", {
    details: { owner, fence: current, given: fence },
  });
}

/** The state after `event`, the same when there is none; throws CONFLICT when the table refuses it. */
export function nextState(head: Task | null, event: TaskEvent | null): TaskState {
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

export interface Outcome<A extends RememberedAnswer> {
  /** The head as it shall be, but for the audit fields, which are added here. */
  readonly head: Omit<Task, "audit_seq" | "audit_hash">;
  readonly transition: Omit<Transition, "actor" | "at" | "commandId" | "fence" | "stateFrom" | "stateTo">;
  readonly event: EventFact;
  readonly answer: A;
}

/** Makes the writes that belong to every transition. Stamped keys come last, as the store asks. */
export function complete<A extends RememberedAnswer>(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  outcome: Outcome<A>,
): A {
  const { tenant, task, agent } = context.actor;
  const at = new Date(context.nowMs).toISOString();
  const chain = appendAudit(
    tx,
    begun.keys,
    { tenant, task, head: begun.head },
    {
      ...outcome.transition,
      actor: { id: agent, type: "agent" },
      at,
      commandId: context.commandId,
      fence: outcome.head.fence,
      stateFrom: begun.head?.state ?? null,
      stateTo: outcome.head.state,
    },
  );
  const head: Task = { ...outcome.head, audit_seq: chain.seq, audit_hash: chain.hash };
  tx.set(begun.keys.task(task), encodeChecked(head));
  const { checkpointId, version } = outcome.transition;
  appendFeed(tx, context.incarnation, { tenant, task, checkpoint: checkpointId, version });
  appendEvent(tx, context.incarnation, eventOf(context, chain.seq, at, outcome.event));
  remember(tx, begun.keys, {
    tenant,
    command: context.commandId,
    requestHash: context.requestHash,
    answer: outcome.answer,
    nowMs: context.nowMs,
  });
  return outcome.answer;
}

export function eventOf(
  context: Pick<CommandContext, "actor" | "traceparent">,
  auditSeq: number,
  at: string,
  fact: EventFact,
): FleetEvent {
  const { tenant, task } = context.actor;
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
    ...(context.traceparent !== undefined && { traceparent: context.traceparent }),
    data: fact.data,
  };
}
