/** Scripted histories of handoffs: the steps of a correct fleet, of which a test changes a fact. */
import type { Alert } from "../../../../../shared/protocol/alerts.ts";
import type { Handoff } from "../../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../../shared/protocol/handoff-states.ts";
import type { CallAttempt } from "../../agents/history.ts";
import type { Entry } from "../evidence.ts";
import { type Mutable, ScriptedHistory } from "../scripted-history.ts";

export const DEADLINE_MS = 2_000;
export const FIRST_CHECKPOINT_MS = 3_000;
const OFFERS_MAX = 2;

type Failure = NonNullable<Handoff["failure"]>["reason"];

export class ScriptedHandoffs extends ScriptedHistory {
  /** Writes the checkpoint with which an agent hands off; returns the id of the handoff. */
  handOff(by: { readonly agent?: string; readonly fence?: number } = {}): string {
    const attempt = this.write({ op: "create", ...by });
    const id = attempt.command_id!;
    attempt.handoff = id;
    attempt.committed = { ...attempt.committed!, handoff: id };
    this.begin(id, id);
    return id;
  }

  /** Requests a handoff of the latest checkpoint; `first` makes the earlier transitions of the command. */
  initiate(agent = "a", fence?: number, first: (command: string) => void = () => {}): string {
    const attempt = this.call({ op: "handoff", agent, ...(fence !== undefined && { fence }) });
    const id = attempt.command_id!;
    attempt.handoff = id;
    first(id);
    this.begin(id, id);
    this.grant(attempt, id);
    return id;
  }

  /** Requests a handoff; `command` is null for an attempt at recovery. */
  protected begin(id: string, command: string | null): void {
    const from_checkpoint = this.current.at(-1)?.checkpoint_id;
    this.handoffs.set(id, {
      ...{ handoff_id: id, task_id: this.task, state: "requested", attempt: 0, max_attempts: null },
      checkpoint_id: from_checkpoint,
      ...{ to_agent_type: "qa", accepted_by: null, fence: null, first_checkpoint_id: null },
      first_checkpoint_ms: null,
    } as Mutable<Handoff>);
    this.openHandoff = id;
    const named = { handoff_id: id, handoff_from: null, handoff_to: "requested", command_id: command };
    const point = from_checkpoint !== undefined && { from_checkpoint };
    this.transition("handoff", { ...named, ...point }, "handing_off");
  }

  protected grant(attempt: Mutable<CallAttempt>, handoff: string | null, fence: number | null = null): void {
    attempt.outcome = "committed";
    const nothing = { checkpoint_id: null, version: null, seq: null, hash: null };
    attempt.committed = { ...nothing, fence, handoff, position: String(this.entries.length) };
  }

  #move(op: string, id: string, to: HandoffState, facts: Partial<Entry> = {}, state = this.state): void {
    const record = this.handoffs.get(id)!;
    const named = { handoff_id: id, handoff_from: record.state, handoff_to: to };
    record.state = to;
    if (!["requested", "validated", "offered", "accepted"].includes(to)) this.openHandoff = null;
    this.transition(op, { ...named, ...facts }, state);
  }

  /** Offers a handoff as the coordinators do, after its validation. */
  offer(id: string): void {
    const record = this.handoffs.get(id)!;
    if (record.state === "requested") this.#move("validate", id, "validated");
    record.attempt += 1;
    record.max_attempts = OFFERS_MAX;
    record.first_checkpoint_ms = FIRST_CHECKPOINT_MS;
    const deadline = new Date(this.wallMs + DEADLINE_MS).toISOString();
    this.#move("offer", id, "offered", { attempt: record.attempt, deadline, offer_digest: digestOf(record) });
  }

  /** An agent accepts the offer and is answered committed. */
  accept(id: string, agent: string): Mutable<CallAttempt> {
    const attempt = this.acknowledge(id, agent);
    const record = this.handoffs.get(id)!;
    this.fence += 1;
    this.owner = agent;
    record.accepted_by = agent;
    record.fence = this.fence;
    const offer_digest = digestOf(record);
    const facts = { command_id: attempt.command_id!, owner_to: agent, offer_digest };
    this.#move("acknowledge", id, "accepted", facts, "active");
    this.grant(attempt, id, this.fence);
    return attempt;
  }

  /** An agent accepts the offer, with an open outcome. */
  acknowledge(id: string, agent: string): Mutable<CallAttempt> {
    return this.call({ op: "acknowledge", agent, handoff: id, attempt: this.handoffs.get(id)!.attempt });
  }

  /** Writes the first checkpoint of the accepting agent. */
  confirm(id: string, agent: string, fence = this.fence): Mutable<CallAttempt> {
    const attempt = this.write({ op: "create", agent, fence });
    const first = attempt.command_id!;
    this.handoffs.get(id)!.first_checkpoint_id = first;
    this.#move("confirm", id, "confirmed", { command_id: first, first_checkpoint: first });
    return attempt;
  }

  withdraw(id: string, agent = "a", fence?: number): Mutable<CallAttempt> {
    const attempt = this.call({
      op: "cancel_handoff",
      agent,
      handoff: id,
      ...(fence !== undefined && { fence }),
    });
    this.cancel(id, "withdrawn", attempt.command_id!);
    this.grant(attempt, id);
    return attempt;
  }

  /** Cancels the handoff as an additional transition of a command, or by a command for it. */
  cancel(id: string, reason: Failure, command: string): void {
    this.#move("cancel_handoff", id, "cancelled", { reason, command_id: command }, "active");
  }

  escalate(id: string, reason: Failure): void {
    this.#move("escalate", id, "escalated", { reason });
    this.#block(id, reason);
    this.alert(id, "escalated", "critical");
  }

  reject(id: string): void {
    this.#move("reject", id, "rejected", { reason: "hash_broken" });
    this.#block(id, "hash_broken");
    this.alert(id, "rejected", "critical");
  }

  #block(id: string, reason: Failure): void {
    this.transition("block", { reason, handoff_id: id }, "blocked");
    this.recovery = "blocked";
  }

  lapse(id: string): void {
    this.#move("lapse", id, "lapsed", { reason: "no_first_checkpoint" });
    this.alert(id, "lapsed", "warning");
  }

  alert(handoffId: string, state: string, severity: "critical" | "warning"): void {
    this.alerts.push({
      type: "HANDOFF_FAILED",
      subject: this.task,
      severity,
      data: { handoffId, state },
    } as Alert);
  }
}

/** The digest of the handoff's latest offer. */
function digestOf({ handoff_id, attempt }: Handoff): string {
  return `${handoff_id}/${attempt}`;
}
