/**
 * Who owns a task. Taking it makes the caller its owner and raises the fence by one, in one transaction: from that commit on every
 * command with a lower fence is refused, wherever it was on its way (guarantee 5). Anybody may take who may address the task; the
 * owner before is superseded, which is the point, and so is a handoff that is open. The fence never falls, so an owner of long ago can never be current again.
 */
import type { TakeCommand } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import { policyOf } from "../../protocol/policy.ts";
import type { Tx } from "../../store/store.ts";
import { cancel } from "../handoff/handoff-transitions.ts";
import { readOpen, write } from "../handoff/record.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { block, blockLeft } from "../recovery/blocks.ts";
import { writePromise } from "../recovery/leases.ts";
import { blockAgain } from "../recovery/recovery-decision.ts";
import { recoveryOf, takenBy } from "../recovery/recovery-transitions.ts";
import { type Begun, begin, type CommandContext, complete, type Replay } from "./command-transaction.ts";
import type { RememberedOwnership } from "./idempotency.ts";
import { type Head, nextState, OF_NO_CHECKPOINT, type Step } from "./transitions.ts";

/** Of a task that nobody has written to: what holds for all types holds for it. */
const UNKNOWN_TYPE = "";
const NOTHING_WANTED = (): [] => [];

/** A task that does not exist yet begins here, without a checkpoint. Throws CONFLICT when the fence is not the expected one. */
export async function takeTask(
  tx: Tx,
  context: CommandContext,
  command: Pick<TakeCommand, "expected_fence" | "heartbeats">,
): Promise<RememberedOwnership | Replay> {
  const begun = await begin(tx, context, NOTHING_WANTED, { supersedes: true });
  if ("replay" in begun) return begun;
  const { head } = begun;
  const { expected_fence: expected } = command;
  const actual = head?.fence ?? 0;
  if (expected !== undefined && expected !== actual) {
    throw new FleetError("CONFLICT", "the task has another fence than expected", {
      fields: [{ path: "expected_fence", expected: String(actual), got: String(expected) }],
      details: { actual, owner: head?.owner ?? null },
    });
  }
  if (head === null) tx.addI64(systemKeys.count("tasks"), 1n);
  if (command.heartbeats) {
    const { tenant, task, agent: agentId } = context.actor;
    const agentType = head?.agent_type ?? UNKNOWN_TYPE;
    writePromise(tx, { tenant, task, fence: actual + 1, agentId, agentType }, context.nowMs);
  }
  const taker = { agent: context.actor.agent, promises: command.heartbeats === true };
  return own(tx, context, begun, taker, await readOpen(tx, begun.keys, head));
}

/** Only under the current fence, which a task that does not exist has not. Throws CONFLICT when nobody owns the task. */
export async function releaseTask(tx: Tx, context: CommandContext): Promise<RememberedOwnership | Replay> {
  const begun = await begin(tx, context, NOTHING_WANTED);
  if ("replay" in begun) return begun;
  const { head } = begun;
  if (head === null || head.owner === null) {
    throw new FleetError("CONFLICT", "nobody owns the task", {
      details: { task_id: context.actor.task, fence: head?.fence ?? 0 },
    });
  }
  return own(tx, context, begun, null);
}

interface Taker {
  readonly agent: string;
  /** It said that it would be heard. */
  readonly promises: boolean;
}

/** Completes the transition after which `taker` has the task: under the next fence, or, when it is nobody, under the same. */
function own(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  taker: Taker | null,
  open: Handoff | null = null,
): RememberedOwnership {
  const owner = taker?.agent ?? null;
  const { task, agent } = context.actor;
  const at = new Date(context.nowMs).toISOString();
  const before = begun.head ?? untouched(context, at);
  const fence = owner === null ? before.fence : before.fence + 1;
  const step: Step = {
    head: {
      ...before,
      state: nextState(begun.head, owner === null ? null : "take"),
      owner,
      fence,
      updated_at: at,
    },
    transition: {
      ...OF_NO_CHECKPOINT,
      op: owner === null ? "release" : "take",
      facts: { owner_from: before.owner, owner_to: owner },
    },
    event:
      owner === null
        ? { type: "TASK_RELEASED", data: { taskId: task, agentId: agent, fence } }
        : {
            type: "TASK_TAKEN",
            data: { taskId: task, agentId: agent, fence, previousOwner: before.owner },
          },
  };
  const taken = { reason: "taken", details: agent } as const;
  const steps = [step, ...(open === null ? [] : write(tx, begun.keys, cancel(step.head, open, taken, at)))];
  const left = (steps.at(-1) as Step).head;
  const type = left.recovery?.failure?.agent_type ?? left.agent_type ?? UNKNOWN_TYPE;
  const { recovery } = policyOf(context.policies, context.actor.tenant, type);
  if (taker !== null) steps.push(...takenBy(left, taker, recovery, context.nowMs));
  const waits = taker === null ? blockLeft(before) : null;
  if (waits !== null) {
    const { dueMs } = blockAgain(waits.reason, recoveryOf(left), recovery, context.nowMs);
    steps.push(block(left, waits, at, dueMs));
  }
  return complete(tx, context, begun, {
    steps,
    answer: { task_id: task, owner, fence, committed_at: at },
  });
}

/** The head of a task that nothing was written to yet. */
function untouched({ actor }: CommandContext, at: string): Head {
  return {
    task_id: actor.task,
    tenant: actor.tenant,
    state: "active",
    phase: null,
    agent_id: null,
    agent_type: null,
    latest_id: null,
    last_successful_id: null,
    seq: 0,
    owner: null,
    fence: 0,
    handoff_id: null,
    recovery: null,
    block: null,
    created_at: at,
    updated_at: at,
  };
}
