/**
 * Refusals that must be recorded: a queued command that was refused because of a later owner's fence, or that
 * an operator dropped. Only the audit trail of the task changes, with the event of the new entry. Each
 * refusal is recorded once, even if a crash makes its service report it again.
 */
import { annotate } from "../../lifecycle/decision.ts";
import type { Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { requireNewest } from "./command-transaction.ts";
import { decodeHead } from "./head.ts";
import { occasionKey, rememberOccasion } from "./idempotency.ts";
import { writeTransitions } from "./transitions.ts";

export interface AuditedRefusal {
  readonly tenant: string;
  readonly task: string;
  /** The agent or person whose command it was. */
  readonly agent: string;
  /** The service or operator that refused the command. */
  readonly actor: AuditActor;
  readonly commandId: string | null;
  readonly reason: "fenced" | "dropped";
  /** A text that identifies this refusal: the same for every report of it. */
  readonly occasion: string;
}

export interface RefusalContext {
  readonly nowMs: number;
  readonly incarnation: number;
  readonly traceparent: string | undefined;
}

/** False when there is no such task, or when the refusal is recorded already. */
export async function recordRefusal(
  tx: Tx,
  refusal: AuditedRefusal,
  context: RefusalContext,
): Promise<boolean> {
  const { tenant, task, agent, commandId, reason } = refusal;
  const keys = tenantKeys(tenant);
  const [seen, headValue] = await tx.getMany([occasionKey(keys, refusal.occasion), keys.task(task)]);
  if (seen !== undefined || headValue === undefined) return false;
  const head = decodeHead(headValue);
  await requireNewest(tx, keys, task, head);
  rememberOccasion(tx, keys, { tenant, occasion: refusal.occasion, nowMs: context.nowMs });
  const { actor } = refusal;
  const transitions = annotate(head, actor.id, context.nowMs, "refuse", {
    facts: { reason, agent_id: agent },
    event: { type: "COMMAND_REFUSED", data: { commandId, agentId: agent, reason } },
  });
  writeTransitions(tx, keys, { tenant, task, actor, commandId, ...context }, head, transitions);
  return true;
}
