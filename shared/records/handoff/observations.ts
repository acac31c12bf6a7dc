/**
 * The coordinators' observations about handoffs, each one transaction: it reads the handoff and its task, and
 * writes the transitions from `decide`. A transition is made only from its own start state, so any number of
 * coordinators may try it, and again after a crash.
 */
import { decide } from "../../lifecycle/decide.ts";
import type { ObservationInput } from "../../lifecycle/input.ts";
import { openHandoffOf } from "../../lifecycle/task.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Policies } from "../../protocol/policy.ts";
import { redactedReason } from "../../protocol/redaction.ts";
import type { Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { writeTransitions } from "../task/transitions.ts";
import { decodeHandoff } from "./record.ts";

/** `applied: false`: another instance has moved the handoff. */
export interface CoordinatedHandoff {
  readonly applied: boolean;
  /** The handoff as it is now; null: it does not exist. */
  readonly handoff: Handoff | null;
}

export interface HandoffObserver {
  readonly tenant: string;
  /** The id of the handoff. */
  readonly id: string;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly policies: Policies;
  readonly random: () => number;
}

export async function observeHandoff(
  tx: Tx,
  { tenant, id, service, nowMs, incarnation, policies, random }: HandoffObserver,
  observation: ObservationInput,
): Promise<CoordinatedHandoff> {
  const keys = tenantKeys(tenant);
  const value = await tx.get(keys.handoff(id));
  if (value === undefined) return { applied: false, handoff: null };
  const handoff = decodeHandoff(id, value);
  const { task_id, traceparent } = handoff;
  const task = await readNewestHead(tx, keys, task_id);
  if (task === null || openHandoffOf(task) !== id) return { applied: false, handoff };
  const circumstances = { tenant, task: task_id, actor: service, nowMs, policies, random, traceparent };
  const decision = decide({ task, handoff }, shortened(observation), circumstances);
  if ("refused" in decision) return { applied: false, handoff };
  const actor = { id: service, type: "service" } as const;
  const author = { tenant, task: task_id, actor, commandId: null, nowMs, incarnation, traceparent };
  writeTransitions(tx, keys, author, task, decision.transitions);
  const after = decision.transitions.findLast(({ handoff }) => handoff !== undefined)?.handoff?.after;
  return { applied: true, handoff: after ?? handoff };
}

/** Details come from error messages, which may be long. */
function shortened(observation: ObservationInput): ObservationInput {
  if (observation.type !== "handoff_invalid" && observation.type !== "not_accepted") return observation;
  const { reason, details } = observation.failure;
  const short = details == null ? null : redactedReason(details);
  return { ...observation, failure: { reason, details: short } };
}
