/**
 * The operations of the coordinators, each one transaction: find due handoffs, verify their checkpoints, and
 * record observations.
 */

import type { Offering } from "../lifecycle/handoff.ts";
import type { ObservationInput } from "../lifecycle/input.ts";
import type { Handoff, HandoffEnding } from "../protocol/handoff-record.ts";
import type { Policies } from "../protocol/policy.ts";
import type { Reader } from "../store/store.ts";
import { type Ancestry, type Own, type Unsound, verifyAncestors, verifyOwn } from "./checkpoint/ancestry.ts";
import type { Findings } from "./corruption/report-corrupt.ts";
import { redactedHandoff } from "./handoff/handoff-view.ts";
import { type HandoffPlace, handoffsDue } from "./handoff/lists.ts";
import { type CoordinatedHandoff, observeHandoff } from "./handoff/observations.ts";
import { readDue } from "./kv/due-index.ts";
import type { Transactions } from "./kv/transactions.ts";

export interface ActionParts {
  readonly transactions: Transactions;
  readonly findings: Findings;
  readonly incarnation: number;
  readonly now: () => number;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly policies: Policies;
  /** Default `Math.random`. */
  readonly random?: (() => number) | undefined;
}

/** With `toAgentType`, a request is validated in the same transaction. */
export type Choice<T> = T & { readonly toAgentType?: string | undefined };

export type HandoffFailureDetails = {
  readonly reason: HandoffEnding["reason"];
  readonly details?: string | null | undefined;
};

export class HandoffActions {
  readonly #parts: ActionParts;

  constructor(parts: ActionParts) {
    this.#parts = parts;
  }

  validateHandoff(tenant: string, id: string, choice: { toAgentType: string }): Promise<CoordinatedHandoff> {
    return this.#observe("validate", tenant, id, { type: "validated", ...choice });
  }

  rejectHandoff(tenant: string, id: string, failure: HandoffFailureDetails): Promise<CoordinatedHandoff> {
    return this.#observe("reject", tenant, id, { type: "handoff_invalid", failure: ending(failure) });
  }

  /**
   * The offer leaves in the same transaction, through the outbox. Throws TOO_LARGE for a prompt over the
   * limit.
   */
  offerHandoff(tenant: string, id: string, choice: Choice<Offering>): Promise<CoordinatedHandoff> {
    const { toAgentType, ...offering } = choice;
    return this.#observe("offer", tenant, id, { type: "offer_ready", toAgentType, offering });
  }

  /** `attempt`: the offer that no agent accepted; 0 before the first. */
  escalateHandoff(
    tenant: string,
    id: string,
    { attempt, toAgentType, ...failure }: Choice<HandoffFailureDetails & { attempt: number }>,
  ): Promise<CoordinatedHandoff> {
    const observation = { type: "not_accepted", attempt, toAgentType, failure: ending(failure) } as const;
    return this.#observe("escalate", tenant, id, observation);
  }

  /** Not before the deadline of the first checkpoint. */
  lapseHandoff(tenant: string, id: string): Promise<CoordinatedHandoff> {
    return this.#observe("lapse", tenant, id, { type: "first_checkpoint_overdue" });
  }

  /** Due handoffs of all tenants, the longest overdue first. */
  dueHandoffs(nowMs: number, limit: number, passOver?: (place: HandoffPlace) => boolean): Promise<Handoff[]> {
    return this.#parts.transactions.read("due_handoffs", (reader) =>
      readDue(reader, handoffsDue(nowMs), limit, passOver),
    );
  }

  /** Verifies one checkpoint; a corrupt one is quarantined. */
  verifyOwn(tenant: string, task: string, id: string): Promise<Own | Unsound> {
    return this.#verify(tenant, task, (reader) => verifyOwn(reader, tenant, task, id));
  }

  /** Verifies the ancestors of a checkpoint, up to the limit; corrupt ones are quarantined. */
  verifyAncestors(tenant: string, task: string, own: Own): Promise<Ancestry> {
    return this.#verify(tenant, task, (reader) => verifyAncestors(reader, tenant, task, own));
  }

  async #verify<V extends Own | Ancestry | Unsound>(
    tenant: string,
    task: string,
    verify: (reader: Reader) => Promise<V>,
  ): Promise<V> {
    const { transactions, findings } = this.#parts;
    const { value } = await findings.reread(
      () => transactions.read("verify_chain", verify),
      (result) => (result.ok || result.corrupt === null ? null : { tenant, task, corrupt: [result.corrupt] }),
    );
    return value;
  }

  async #observe(
    op: string,
    tenant: string,
    id: string,
    observation: ObservationInput,
  ): Promise<CoordinatedHandoff> {
    const { transactions, service, incarnation, now, policies, random = Math.random } = this.#parts;
    const by = { tenant, id, service, incarnation, policies, random };
    const { value } = await transactions.transact(op, (tx) =>
      observeHandoff(tx, { ...by, nowMs: now() }, observation),
    );
    return { ...value, handoff: value.handoff && redactedHandoff(value.handoff) };
  }
}

function ending({ reason, details }: HandoffFailureDetails): HandoffEnding {
  return { reason, details: details ?? null };
}
