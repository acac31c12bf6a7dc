// A small checkpoint for tests, with every section filled.

import { type UnsealedCheckpoint, unsealedCheckpointSchema } from "../../../shared/protocol/checkpoint.ts";

export const CHECKPOINT_ID = "01981c5e-7b2a-7cc3-98c4-dc0c0c07398f";
export const PARENT_ID = "01981c5e-0001-7cc3-98c4-dc0c0c07398f";

export function unsealed(more: Record<string, unknown> = {}): UnsealedCheckpoint {
  return unsealedCheckpointSchema.parse({
    schema_version: "1.1",
    metadata: {
      checkpoint_id: CHECKPOINT_ID,
      tenant: "default",
      task_id: "task-1",
      agent_id: "agent-1",
      agent_type: "implementation",
      session_id: "session-1",
      iteration: 2,
      timestamp: "2026-01-24T10:00:00.000Z",
      parent_ids: [PARENT_ID],
      trigger: { reason: "progress" },
      status: "draft",
      version: 1,
      seq: 2,
      committed_at: "2026-01-24T10:00:00.100Z",
    },
    execution_state: {
      phase: "implementing",
      completed_items: ["schema"],
      pending_items: [{ id: "2", title: "Prüfung – €" }],
      blocked_items: [{ title: "deploy", blocker: "no access" }],
    },
    context_summary: { key_decisions: [{ decision: "zod", rationale: "one definition" }] },
    metrics: { tokens_consumed: 1_200, context_utilization: 0.25 },
    recovery: { last_successful_state: PARENT_ID },
    compliance: { event_log_ref: "audit/default/task-1#2", retention_policy: "standard" },
    ...more,
  });
}
