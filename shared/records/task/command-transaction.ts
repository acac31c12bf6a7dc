/**
 * The common parts of every command's transaction. `begin` makes the reads and refuses a command that is
 * forgotten, fenced or on a stale head; `complete` makes the writes that every command needs: its transitions
 * with their records, and its idempotency record. Because they share one transaction, a crash at any point
 * leaves either all of them or none (guarantees 1, 2, 3, 6 and 9).
 */

import type { SaltSource } from "../../integrity/seal.ts";
import { decide } from "../../lifecycle/decide.ts";
import type { Aggregate, Circumstances, Decision } from "../../lifecycle/decision.ts";
import type { CommandInput } from "../../lifecycle/input.ts";
import { requireFence } from "../../lifecycle/ownership.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { Transition } from "../../lifecycle/transition.ts";
import type { Actor } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Policies } from "../../protocol/policy.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { principalActor } from "../audit/audit.ts";
import { shortPolicyVersion } from "../audit/policy-version.ts";
import { fenceFloorOf } from "../kv/incarnation.ts";
import { systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { forgottenKey, requireRemembered } from "./expiry.ts";
import { decodeHead } from "./head.ts";
import { isAnswered, type RememberedAnswer, recall, remember } from "./idempotency.ts";
import { writeTransitions } from "./transitions.ts";

/**
 * The context of one command: its caller, its id, and the hash that tells a retry from a misuse of that id.
 */
export interface CommandContext {
  readonly actor: Actor;
  readonly commandId: string;
  readonly fence: number | undefined;
  /** SHA-256 of the request's content, hex. */
  readonly requestHash: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly policies: Policies;
  /** Whether the file mirror copies every checkpoint. */
  readonly isMirrored: boolean;
  readonly newSalt: SaltSource;
  /** The caller's trace, kept in the event so that it crosses the outbox. */
  readonly traceparent: string | undefined;
}

export interface Begun {
  readonly keys: TenantKeys;
  readonly head: TaskRecord | null;
  /** The values of the further keys, in their order. */
  readonly values: readonly (Bytes | undefined)[];
}

export type Replay = { readonly replay: { answer: RememberedAnswer; position: string } };

/**
 * Reads the idempotency record, the time up to which commands are forgotten, the task's head and the keys of
 * `wanted` at once. `supersedes`: the command takes the task from its owner, so it needs no fence; a given
 * fence must still be the current one.
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
  if (isAnswered(seen)) {
    const key = { tenant, command: context.commandId };
    return { replay: recall(seen, key, context.requestHash) };
  }
  requireRemembered(context.commandId, forgotten, context.nowMs);
  const known = head ? decodeHead(head) : null;
  await requireNewest(tx, keys, task, known);
  requireFence(known, context.fence, supersedes);
  return { keys, head: known, values };
}

/** Throws CORRUPT unless the head is the newest. */
export async function readNewestHead(tx: Tx, keys: TenantKeys, task: string): Promise<TaskRecord | null> {
  const value = await tx.get(keys.task(task));
  const head = value === undefined ? null : decodeHead(value);
  await requireNewest(tx, keys, task, head);
  return head;
}

/**
 * The head must be the newest. If the audit trail continues behind it, the head was lost or rolled back, and
 * a command on it would overwrite committed records. An operator must decide.
 */
export async function requireNewest(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  head: TaskRecord | null,
): Promise<void> {
  if (await isNewest(tx, keys, task, head)) return;
  throw new FleetError("CORRUPT", "the task's head is older than its records; an operator must decide", {
    details: { task_id: task, head_seq: head?.seq ?? null, head_audit_seq: head?.audit_seq ?? null },
  });
}

export async function isNewest(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  head: TaskRecord | null,
): Promise<boolean> {
  // A transaction that writes these keys also writes the head, so the head's read conflict covers them.
  const [audit, order] = await tx.snapshot.getMany([
    keys.audit(task, (head?.audit_seq ?? 0) + 1),
    keys.order(task, (head?.seq ?? 0) + 1),
  ]);
  return audit === undefined && order === undefined;
}

/** The facts about a command that `decide` needs besides the task and the input. */
export function circumstancesOf({
  actor,
  nowMs,
  policies,
  incarnation,
  traceparent,
}: CommandContext): Circumstances {
  const { tenant, task, agent } = actor;
  const fenceFloor = fenceFloorOf(incarnation);
  return { tenant, task, actor: agent, nowMs, policies, random: Math.random, fenceFloor, traceparent };
}

/** Throws the refusal's error. */
export function decided(context: CommandContext, state: Aggregate, input: CommandInput): Decision {
  const decision = decide(state, input, circumstancesOf(context));
  if ("refused" in decision) throw decision.error;
  return decision;
}

export interface CommandOutcome<A extends RememberedAnswer> {
  readonly transitions: readonly Transition[];
  readonly answer: A;
}

/** Makes the writes that belong to every command. */
export async function complete<A extends RememberedAnswer>(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  outcome: CommandOutcome<A>,
): Promise<A> {
  await requireNewHandoffs(tx, begun, outcome.transitions);
  await releaseLocksOfPreviousOwner(tx, context, begun, outcome.transitions);
  const { tenant, task, agent } = context.actor;
  const { commandId, requestHash, nowMs, incarnation, traceparent } = context;
  const by = { actor: principalActor(agent), policy: shortPolicyVersion(context.policies) };
  const author = { ...by, tenant, task, commandId, nowMs, incarnation, traceparent };
  writeTransitions(tx, begun.keys, author, begun.head, outcome.transitions);
  const auditSeq = (begun.head?.audit_seq ?? 0) + 1;
  const { answer } = outcome;
  remember(tx, begun.keys, { tenant, command: commandId, requestHash, answer, auditSeq, nowMs });
  return answer;
}

/** The owner was superseded: the sweep of missions releases the files that it holds in this one. */
async function releaseLocksOfPreviousOwner(
  tx: Tx,
  { actor: { tenant, task }, nowMs }: CommandContext,
  { keys, head }: Begun,
  transitions: readonly Transition[],
): Promise<void> {
  const owner = head?.owner ?? null;
  if (owner === null || transitions.at(-1)?.task.fence === head?.fence) return;
  if ((await tx.get(keys.agentLocks(owner, task))) === undefined) return;
  tx.set(systemKeys.missionDue(nowMs, tenant, task, owner), new Uint8Array(0));
}

/** A handoff has the id of its command. A command under the id of an existing handoff must not replace its record. */
async function requireNewHandoffs(
  tx: Tx,
  { keys }: Pick<Begun, "keys">,
  transitions: readonly Transition[],
): Promise<void> {
  for (const { handoff } of transitions) {
    if (handoff == null || handoff.before !== null) continue;
    const { handoff_id: id } = handoff.after;
    if ((await tx.get(keys.handoff(id))) === undefined) continue;
    throw new FleetError("CONFLICT", "the command has the id of an existing handoff", {
      fields: [{ path: "command_id", expected: "a new id", got: id }],
      details: { handoff_id: id },
    });
  }
}
