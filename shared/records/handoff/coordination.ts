/**
 * What the coordinators do to handoffs: validate, reject, offer, escalate, lapse. They are nobody's commands: each reads the handoff and the
 * head of its task and moves it only from where it should be, so any number of coordinators may try the same at once, and again after a
 * crash. All but one find it moved.
 */

import type { Handoff } from "../../protocol/handoff-record.ts";
import type { HandoffFailure } from "../../protocol/handoff-states.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { appendOffer } from "../outbox/outbox.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { advance, type Head } from "../task/transitions.ts";
import {
  escalate,
  lapse,
  type Move,
  type Offering,
  offer,
  reject,
  stateAfter,
  validate,
} from "./handoff-transitions.ts";
import { decodeHandoff, write } from "./record.ts";

/** `applied: false`: the handoff is not, or not any more, where this move begins; somebody else moved it. */
export interface Moved {
  readonly applied: boolean;
  /** As it is now; null: there is none. */
  readonly handoff: Handoff | null;
}

export interface Coordinator {
  readonly tenant: string;
  /** Of the handoff. */
  readonly id: string;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly nowMs: number;
  readonly incarnation: number;
}

export function validateHandoff(
  tx: Tx,
  by: Coordinator,
  { toAgentType }: { toAgentType: string },
): Promise<Moved> {
  return coordinate(tx, by, (head, handoff) =>
    stateAfter(handoff, "validate") === null ? null : validate(head, handoff, toAgentType, by.nowMs),
  );
}

export interface Failure {
  readonly reason: HandoffFailure;
  readonly details?: string | null | undefined;
}

export function rejectHandoff(tx: Tx, by: Coordinator, failure: Failure): Promise<Moved> {
  return coordinate(tx, by, (head, handoff) =>
    stateAfter(handoff, "reject") === null ? null : reject(head, handoff, ending(failure), iso(by)),
  );
}

/** With `toAgentType` a request is validated in the same transaction. */
export type Choice<T> = T & { readonly toAgentType?: string | undefined };

/** The offer itself leaves in the same transaction, through the outbox. Throws TOO_LARGE for a prompt over the limit. */
export function offerHandoff(
  tx: Tx,
  by: Coordinator,
  { toAgentType, ...offering }: Choice<Offering>,
): Promise<Moved> {
  return coordinate(
    tx,
    by,
    validatedFirst(by, toAgentType, (head, handoff) => {
      const { to_agent_type: toAgent, attempt } = handoff;
      const isNext = stateAfter(handoff, "offer") !== null && attempt + 1 === offering.attempt;
      return toAgent === null || !isNext ? null : offer(head, handoff, toAgent, offering, by.nowMs);
    }),
  );
}

/** `attempt`: the offer that nobody took; 0 before the first. */
export function escalateHandoff(
  tx: Tx,
  by: Coordinator,
  { attempt, toAgentType, ...failure }: Choice<Failure & { readonly attempt: number }>,
): Promise<Moved> {
  return coordinate(
    tx,
    by,
    validatedFirst(by, toAgentType, (head, handoff) =>
      stateAfter(handoff, "escalate") === null || handoff.attempt !== attempt
        ? null
        : escalate(head, handoff, ending(failure), iso(by)),
    ),
  );
}

/** Two moves as one; the second begins where the first ends. */
function validatedFirst(by: Coordinator, toAgentType: string | undefined, moveOf: MoveOf): MoveOf {
  return (head, handoff) => {
    if (toAgentType === undefined || stateAfter(handoff, "validate") === null) return moveOf(head, handoff);
    const first = validate(head, handoff, toAgentType, by.nowMs);
    const next = moveOf(first.steps.at(-1)?.head ?? head, first.after);
    return next && { ...next, before: handoff, steps: [...first.steps, ...next.steps] };
  };
}

/** Not before the deadline of the first checkpoint. */
export function lapseHandoff(tx: Tx, by: Coordinator): Promise<Moved> {
  return coordinate(tx, by, (head, handoff) =>
    stateAfter(handoff, "lapse") === null || by.nowMs < Date.parse(handoff.deadline ?? "")
      ? null
      : lapse(head, handoff, iso(by)),
  );
}

const iso = ({ nowMs }: Coordinator): string => new Date(nowMs).toISOString();

function ending({ reason, details }: Failure) {
  return { reason, details: details?.slice(0, LIMITS.handoff_reason_chars_max).toWellFormed() ?? null };
}

type MoveOf = (head: Head, handoff: Handoff) => Move | null;

async function coordinate(
  tx: Tx,
  { tenant, id, service, nowMs, incarnation }: Coordinator,
  moveOf: MoveOf,
): Promise<Moved> {
  const keys = tenantKeys(tenant);
  const value = await tx.get(keys.handoff(id));
  if (value === undefined) return { applied: false, handoff: null };
  const handoff = decodeHandoff(id, value);
  const { task_id: task, traceparent } = handoff;
  const head = await readNewestHead(tx, keys, task);
  if (head === null || head.handoff_id !== id) return { applied: false, handoff };
  const move = moveOf(head, handoff);
  if (move === null) return { applied: false, handoff };
  const actor = { id: service, type: "service" } as const;
  const maker = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent };
  advance(tx, keys, maker, head, write(tx, keys, move));
  // Behind the event that says so, in the same outbox.
  if (move.offer !== undefined) appendOffer(tx, incarnation, move.offer);
  return { applied: true, handoff: move.after };
}
