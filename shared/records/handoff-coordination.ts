/**
 * What coordinators do, each one transaction: they look for handoffs that are due, verify what is handed over, and move a handoff. A move
 * is made only from where it begins, and its answer says whether it was, so that any number of coordinators may make it.
 */

import type { Handoff } from "../protocol/handoff-record.ts";
import type { Reader, Tx } from "../store/store.ts";
import { type Ancestry, type Own, type Unsound, verifyAncestors, verifyOwn } from "./checkpoint/ancestry.ts";
import type { Findings } from "./checkpoint/report-corrupt.ts";
import {
  type Choice,
  type Coordinator,
  escalateHandoff,
  type Failure,
  lapseHandoff,
  type Moved,
  offerHandoff,
  rejectHandoff,
  validateHandoff,
} from "./handoff/coordination.ts";
import type { Offering } from "./handoff/handoff-transitions.ts";
import { type HandoffPlace, handoffsDue } from "./handoff/lists.ts";
import { readDue } from "./kv/due-index.ts";
import type { Transactions } from "./kv/transactions.ts";

export interface CoordinationParts {
  readonly transactions: Transactions;
  readonly findings: Findings;
  readonly incarnation: number;
  readonly now: () => number;
  /** For the audit trail. */
  readonly service: string;
}

export class HandoffCoordination {
  readonly #parts: CoordinationParts;

  constructor(parts: CoordinationParts) {
    this.#parts = parts;
  }

  validateHandoff(tenant: string, id: string, choice: { toAgentType: string }): Promise<Moved> {
    return this.#move("validate", tenant, id, (tx, by) => validateHandoff(tx, by, choice));
  }

  rejectHandoff(tenant: string, id: string, failure: Failure): Promise<Moved> {
    return this.#move("reject", tenant, id, (tx, by) => rejectHandoff(tx, by, failure));
  }

  offerHandoff(tenant: string, id: string, offering: Choice<Offering>): Promise<Moved> {
    return this.#move("offer", tenant, id, (tx, by) => offerHandoff(tx, by, offering));
  }

  escalateHandoff(
    tenant: string,
    id: string,
    failure: Choice<Failure & { attempt: number }>,
  ): Promise<Moved> {
    return this.#move("escalate", tenant, id, (tx, by) => escalateHandoff(tx, by, failure));
  }

  lapseHandoff(tenant: string, id: string): Promise<Moved> {
    return this.#move("lapse", tenant, id, lapseHandoff);
  }

  /** Of all tenants, the longest overdue first. */
  dueHandoffs(nowMs: number, limit: number, passOver?: (place: HandoffPlace) => boolean): Promise<Handoff[]> {
    return this.#parts.transactions.read("due_handoffs", (reader) =>
      readDue(reader, handoffsDue(nowMs), limit, passOver),
    );
  }

  /** Whether a checkpoint verifies; if not, it is quarantined. */
  verifyOwn(tenant: string, task: string, id: string): Promise<Own | Unsound> {
    return this.#verify(tenant, task, (reader) => verifyOwn(reader, tenant, task, id));
  }

  /** Whether all that it goes back to verifies, as far as the limit; what does not is quarantined. */
  verifyAncestors(tenant: string, task: string, own: Own): Promise<Ancestry> {
    return this.#verify(tenant, task, (reader) => verifyAncestors(reader, tenant, task, own));
  }

  async #verify<V extends Own | Ancestry | Unsound>(
    tenant: string,
    task: string,
    look: (reader: Reader) => Promise<V>,
  ): Promise<V> {
    const { transactions, findings } = this.#parts;
    const result = await transactions.read("verify_chain", look);
    if (!result.ok) await findings.keep(tenant, task, [result.corrupt]);
    return result;
  }

  async #move(
    op: string,
    tenant: string,
    id: string,
    move: (tx: Tx, by: Coordinator) => Promise<Moved>,
  ): Promise<Moved> {
    const { transactions, service, incarnation, now } = this.#parts;
    const by = { tenant, id, service, incarnation };
    return (await transactions.transact(op, (tx) => move(tx, { ...by, nowMs: now() }))).value;
  }
}
