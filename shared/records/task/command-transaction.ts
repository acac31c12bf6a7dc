/**
 * What every command's transaction has in common. `begin` makes all reads and refuses what must be refused; `complete` makes the
 * writes that no command may lack: its transitions with all that belongs to them, and its idempotency record. Because they share one
 * transaction, a crash at any point leaves either all of them or none (guarantees 1, 2, 3, 6 and 9).
 */

import type { Aggregate, Chain, Circumstances } from "../../lifecycle/chain.ts";
import { decide } from "../../lifecycle/decide.ts";
import type { CommandInput } from "../../lifecycle/input.ts";
import { requireFence } from "../../lifecycle/ownership.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { Transition } from "../../lifecycle/transition.ts";
import type { Actor } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Policies } from "../../protocol/policy.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import type { ThresholdsOf } from "../checkpoint/triggers.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { forgottenKey, requireRemembered } from "./expiry.ts";
import { decodeHead } from "./head.ts";
import { type RememberedAnswer, recall, remember } from "./idempotency.ts";
import { writeTransitions } from "./transitions.ts";

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
  readonly policies: Policies;
  /** Trace of the caller, kept in the event so that it crosses the outbox. */
  readonly traceparent: string | undefined;
}

export interface Begun {
  readonly keys: TenantKeys;
  readonly head: TaskRecord | null;
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

/** Throws CORRUPT unless it is the newest. */
export async function readNewestHead(tx: Tx, keys: TenantKeys, task: string): Promise<TaskRecord | null> {
  const value = await tx.get(keys.task(task));
  const head = value === undefined ? null : decodeHead(value);
  await requireNewest(tx, keys, task, head);
  return head;
}

/**
 * The head must be the newest: where the trail goes on behind it, the head was lost or rolled back, and going on from it would
 * write over what was committed. A person decides.
 */
export async function requireNewest(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  head: TaskRecord | null,
): Promise<void> {
  if (await isNewest(tx, keys, task, head)) return;
  throw new FleetError("CORRUPT", "the task's head is older than its records; a person must decide", {
    details: { task_id: task, head_seq: head?.seq ?? null, head_audit_seq: head?.audit_seq ?? null },
  });
}

export async function isNewest(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  head: TaskRecord | null,
): Promise<boolean> {
  // Whoever writes these keys also writes the head, so the head's read conflict covers them.
  const [audit, order] = await tx.snapshot.getMany([
    keys.audit(task, (head?.audit_seq ?? 0) + 1),
    keys.order(task, (head?.seq ?? 0) + 1),
  ]);
  return audit === undefined && order === undefined;
}

/** What `decide` needs to know of a command besides the task and the input. */
export function circumstancesOf({ actor, nowMs, policies, traceparent }: CommandContext): Circumstances {
  const { tenant, task, agent } = actor;
  return { tenant, task, actor: agent, nowMs, policies, random: Math.random, traceparent };
}

/** Throws the refusal's error. */
export function decided(context: CommandContext, state: Aggregate, input: CommandInput): Chain {
  const decision = decide(state, input, circumstancesOf(context));
  if ("refused" in decision) throw decision.error;
  return decision;
}

export interface CommandOutcome<A extends RememberedAnswer> {
  readonly transitions: readonly Transition[];
  readonly answer: A;
}

/** Makes the writes that belong to every command. */
export function complete<A extends RememberedAnswer>(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  outcome: CommandOutcome<A>,
): A {
  const { tenant, task, agent } = context.actor;
  const { commandId, requestHash, nowMs, incarnation, traceparent } = context;
  const actor = { id: agent, type: "agent" } as const;
  const author = { tenant, task, actor, commandId, nowMs, incarnation, traceparent };
  writeTransitions(tx, begun.keys, author, begun.head, outcome.transitions);
  remember(tx, begun.keys, { tenant, command: commandId, requestHash, answer: outcome.answer, nowMs });
  return outcome.answer;
}
