/** finalize_checkpoint: immutable from here on, kept as long as its retention policy says. Seed 000 FR-002, NFR-013, NFR-014. */
import type { FinalizeCommand } from "../../protocol/commands.ts";
import { retentionDays } from "../../protocol/retention.ts";
import { finalizeEvent } from "../../protocol/task.ts";
import type { Tx } from "../../store/store.ts";
import { cancel } from "../handoff/handoff-transitions.ts";
import { readOpen, write } from "../handoff/record.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { supersede } from "../recovery/recovery-transitions.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedCheckpoint } from "../task/idempotency.ts";
import { change, current } from "./change.ts";

const DAY_MS = 86_400_000;

export async function finalizeCheckpoint(
  tx: Tx,
  context: CommandContext,
  command: FinalizeCommand,
): Promise<RememberedCheckpoint | Replay> {
  const id = command.checkpoint_id;
  const now = await current(tx, context, id, command.expected_version);
  if ("replay" in now) return now;
  const { checkpoint } = now;
  const { tenant, task } = context.actor;
  const policy = command.retention_policy ?? checkpoint.compliance.retention_policy;
  const days = retentionDays(policy);
  const endMs = days === null ? null : context.nowMs + days * DAY_MS;
  if (endMs !== null) {
    tx.set(systemKeys.retention(Math.ceil(endMs / DAY_MS), tenant, task, id), new Uint8Array(0));
  }
  const taskEvent = finalizeEvent(command.status, checkpoint.execution_state.phase);
  const open = taskEvent === null ? null : await readOpen(tx, now.begun.keys, now.head);
  const at = new Date(context.nowMs).toISOString();
  const ended = { reason: "task_ended", details: taskEvent } as const;
  return change(tx, context, now, {
    next: {
      ...checkpoint,
      metadata: { ...checkpoint.metadata, status: "finalized", final_status: command.status },
      compliance: {
        ...checkpoint.compliance,
        retention_policy: policy,
        ...(endMs !== null && { retain_until: new Date(endMs).toISOString() }),
      },
    },
    op: "finalize",
    taskEvent,
    event: { type: "CHECKPOINT_FINALIZED", data: { checkpointId: id, status: command.status } },
    facts: { final_status: command.status, retention_policy: policy },
    succeeded: command.status === "succeeded",
    besides: (head) => {
      if (taskEvent === null) return [];
      const steps = open === null ? [] : write(tx, now.begun.keys, cancel(head, open, ended, at));
      return [...steps, ...supersede(steps.at(-1)?.head ?? head, "end", at)];
    },
  });
}
