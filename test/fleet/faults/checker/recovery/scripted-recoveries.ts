/** Scripted histories of recoveries: the steps of a correct fleet after the failure of an agent, of which a test changes a fact. */
import type { Alert } from "../../../../../shared/protocol/alerts.ts";
import type { FailureClass } from "../../../../../shared/protocol/exit-report.ts";
import type { CallAttempt } from "../../agents/history.ts";
import { POLICY } from "../../environment/policy.ts";
import { versionName } from "../evidence.ts";
import { ScriptedHandoffs } from "../handoff/scripted-handoffs.ts";
import type { Mutable } from "../scripted-history.ts";

const { recovery: RULES } = POLICY.defaults;
const HEARTBEAT_MS = 500;

export class ScriptedRecoveries extends ScriptedHandoffs {
  /** The number of attempts since the budget was restored. */
  attemptCount = 0;
  failures = 0;
  #alerts = 0;

  /** An agent takes the task, sends a heartbeat and writes a checkpoint with completed items. */
  startWork(agent = "a", items = 1): void {
    this.write({ op: "take", agent });
    this.heartbeat(agent);
    this.complete(items, agent);
  }

  heartbeat(agent: string, stepDeadline: number | null = null): void {
    const [sentAt, receivedAt] = [this.wallMs, this.wallMs + 1];
    this.heartbeats.push({ agent, task: this.task, fence: this.fence, sentAt, receivedAt, stepDeadline });
    this.wallMs += HEARTBEAT_MS;
  }

  /** Writes a checkpoint with completed items, of which some names may be equal. */
  complete(
    items: number,
    agent: string,
    names = Array.from({ length: items }, (_, i) => `item ${i}`),
  ): Mutable<CallAttempt> {
    const attempt = this.write({ op: "create", agent, fence: this.fence });
    this.setItems(attempt, names);
    return attempt;
  }

  /** Records the sent command of a checkpoint with these items. */
  setItems({ command_id: id }: CallAttempt, items: readonly string[], parents?: readonly string[]): void {
    const completed_items = items.map((title) => ({ title }));
    const metadata = { agent_type: "worker", ...(parents && { parent_ids: parents }) };
    const body = JSON.stringify({
      checkpoint: { metadata, execution_state: { phase: "implementing", completed_items } },
    });
    this.sent.set(id!, { line: "sent", command_id: id!, subject: "", body });
  }

  /** The agent sends no heartbeats, and fails after the silence timeout. */
  fallSilent(): void {
    this.wallMs += RULES.silence_ms;
    this.fail("lease_lapsed", "crash");
  }

  /** A queued command of a superseded agent is refused while the owner is silent; then the owner fails. */
  refuseAndFallSilent(): void {
    this.wallMs += RULES.silence_ms - 10;
    this.transition("refuse", { command_id: "late" });
    this.wallMs += 10;
    this.fail("lease_lapsed", "crash");
  }

  /** The agent reports its failure. */
  reportFailure(failureClass: FailureClass, agent = this.owner!): void {
    const { task, fence, wallMs: at } = this;
    this.exits.push({ agent, task, fence, class: failureClass, at });
    this.wallMs += 20;
    this.fail("exit_report", failureClass);
  }

  fail(signal: string, failureClass: string): void {
    const owner_from = this.owner;
    this.owner = null;
    this.fence += 1;
    const action = failureClass === "unrecoverable" ? "block" : this.failures === 0 ? "retry" : "back_off";
    this.failures += 1;
    const facts = { owner_from, owner_to: null, signal, class: failureClass, action };
    this.move("fail", "waiting", facts, this.state === "blocked" ? "active" : this.state);
    this.wallMs += action === "back_off" ? RULES.back_off_ms : 10;
  }

  /** Makes an attempt with its handoff; returns the id of the handoff. */
  attempt(from = this.current.at(-1)!.checkpoint_id): string {
    this.attemptCount += 1;
    const id = `attempt-${this.entries.length}`;
    const rung = this.attemptCount <= RULES.attempts ? "latest" : "previous";
    this.move("recover", "attempted", {
      attempt: this.attemptCount,
      rung,
      from_checkpoint: from,
      handoff_id: id,
    });
    this.begin(id, null);
    return id;
  }

  /** An agent accepts the handoff and writes its first checkpoint. */
  resume(id: string, agent: string, items: number): Mutable<CallAttempt> {
    this.offer(id);
    this.accept(id, agent);
    this.heartbeat(agent);
    const first = this.confirm(id, agent);
    this.setItems(
      first,
      Array.from({ length: items }, (_, i) => `item ${i}`),
    );
    this.move("resume", "resumed", { command_id: first.command_id!, first_checkpoint: first.command_id! });
    return first;
  }

  recover(agent: string, items: number): Mutable<CallAttempt> {
    return this.resume(this.attempt(), agent, items);
  }

  /** The failed agent is restarted and takes the task by name, which counts as the attempt. */
  restart(agent: string): void {
    const { command_id } = this.write({ op: "take", agent });
    this.attemptCount += 1;
    const rung = this.attemptCount <= RULES.attempts ? "latest" : "previous";
    const facts = { command_id: command_id!, reason: "superseded", attempt: this.attemptCount, rung };
    this.move("settle", "idle", facts);
    this.heartbeat(agent);
  }

  /** Writes a checkpoint with progress. */
  progress(items: number, agent: string): void {
    const { command_id } = this.complete(items, agent);
    this.settle(command_id!);
  }

  settle(command: string): void {
    this.attemptCount = 0;
    this.failures = 0;
    this.move("settle", "idle", { command_id: command, reason: "progress" });
  }

  /** An operator requests an attempt, with the whole budget if `resets`, from a certain checkpoint if one is named. */
  request({ resets = false, checkpoint }: { resets?: boolean; checkpoint?: string } = {}): string {
    const attempt = this.call({ op: "recover", agent: "human=olga" });
    const command = attempt.command_id!;
    const body = JSON.stringify({ command_id: command, checkpoint_id: checkpoint });
    this.sent.set(command, { line: "sent", command_id: command, subject: "", body });
    if (this.openHandoff !== null) this.cancel(this.openHandoff, "superseded", command);
    const owner_from = this.owner;
    this.owner = null;
    this.fence += 1;
    if (resets) this.attemptCount = 0;
    const facts = { command_id: command, owner_from, owner_to: null, reset: resets ? "yes" : "no" };
    this.move("retry", "waiting", facts, "active");
    this.grant(attempt, null, this.fence);
    this.wallMs += 10;
    return command;
  }

  /** An agent requests a handoff in place of the due attempt. */
  handOffInstead(agent: string): string {
    return this.initiate(agent, undefined, (command_id) =>
      this.move("settle", "idle", { command_id, reason: "superseded" }),
    );
  }

  /** An agent cancels the handoff on which the recovery depends, which blocks the task. */
  cancelAttempt(id: string, agent: string): void {
    const { command_id } = this.withdraw(id, agent);
    this.move("block", "blocked", { command_id: command_id!, reason: "withdrawn" }, "blocked");
    this.alertBlocked("withdrawn");
  }

  /** An agent takes the blocked task and fails before it has written a checkpoint; there is no new alert. */
  failBlocked(agent: string, reason: string): void {
    const alerted_seq = this.entries.findLast(({ op }) => op === "block")!.seq;
    const { command_id } = this.write({ op: "take", agent });
    this.move("settle", "idle", { command_id: command_id!, reason: "superseded" });
    this.reportFailure("crash");
    this.move("block", "blocked", { reason, alerted_seq }, "blocked");
  }

  block(reason: string): void {
    this.move("block", "blocked", { reason }, "blocked");
    this.alertBlocked(reason);
  }

  alertBlocked(reason: string): void {
    this.#alerts += 1;
    const id = `default/${this.task}/${this.#alerts}`;
    this.alerts.push({
      id,
      type: "RECOVERY_BLOCKED",
      subject: this.task,
      severity: "critical",
      data: { reason },
    } as Alert);
  }

  /** Damages the stored bytes of the current version of a checkpoint. */
  damage(checkpoint: string): void {
    const { version } = this.current.find(({ checkpoint_id }) => checkpoint_id === checkpoint)!;
    this.damages.push({
      line: "damage",
      at: 0,
      wall: this.wallMs,
      task: this.task,
      checkpoint_id: checkpoint,
      version,
    });
    this.hashes.delete(versionName(checkpoint, version));
  }

  move(op: string, to: string, facts: object, state = this.state): void {
    const from = this.recovery ?? "idle";
    this.recovery = to;
    this.transition(op, { ...facts, recovery_from: from, recovery_to: to }, state);
  }
}
