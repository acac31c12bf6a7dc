/**
 * Refusals that must be on record: a command out of the queue that a later owner's fence shut out, or that a person dropped. Nothing of
 * the task changes but its audit trail, and the event that goes with every entry. Recorded once for each occasion, however often
 * a crash makes it be said again.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { annotate } from "../../lifecycle/chain.ts";
import type { Tx } from "../../store/store.ts";
import type { AuditActor } from "../audit/audit.ts";
import { formatUuid, tenantKeys } from "../kv/keyspace.ts";
import { requireNewest } from "./command-transaction.ts";
import { decodeHead } from "./head.ts";
import { rememberOccasion } from "./idempotency.ts";
import { writeTransitions } from "./transitions.ts";

export interface AuditedRefusal {
  readonly tenant: string;
  readonly task: string;
  /** The agent whose command it was. */
  readonly agent: string;
  /** Who refused it, or tried it. */
  readonly actor: AuditActor;
  readonly commandId: string | null;
  readonly reason: "fenced" | "dropped";
  /** The same text for every copy of this refusal. */
  readonly occasion: string;
}

export interface RefusalContext {
  readonly nowMs: number;
  readonly incarnation: number;
  readonly traceparent: string | undefined;
}

/** False when there is no such task, or when it is on record already. */
export async function recordRefusal(
  tx: Tx,
  refusal: AuditedRefusal,
  context: RefusalContext,
): Promise<boolean> {
  const { tenant, task, agent, commandId, reason } = refusal;
  const keys = tenantKeys(tenant);
  const mark = markOf(refusal.occasion);
  const [seen, headValue] = await tx.getMany([keys.command(mark), keys.task(task)]);
  if (seen !== undefined || headValue === undefined) return false;
  const head = decodeHead(headValue);
  await requireNewest(tx, keys, task, head);
  rememberOccasion(tx, keys, { tenant, mark, nowMs: context.nowMs });
  const { actor } = refusal;
  const transitions = annotate(head, actor.id, context.nowMs, "refuse", {
    facts: { reason, agent_id: agent },
    event: { type: "COMMAND_REFUSED", data: { commandId, agentId: agent, reason } },
  });
  writeTransitions(tx, keys, { tenant, task, actor, commandId, ...context }, head, transitions);
  return true;
}

/** In the form of a command id, but of a version that no command's id has. */
function markOf(occasion: string): string {
  const hex = sha256Hex(occasion);
  return formatUuid(Buffer.from(`${hex.slice(0, 12)}8${hex.slice(13, 32)}`, "hex"));
}
