/** Hand-made histories of recoveries: what a correct fleet does about agents that fail, step by step, for a test to bend. */
import type { Alert } from "../../../../../shared/protocol/alerts.ts";
import type { FailureClass } from "../../../../../shared/protocol/exit-report.ts";
import type { Attempt } from "../../agents/history.ts";
import { POLICY } from "../../environment/policy.ts";
import { HandoffTelling } from "../handoff/handoff-script.ts";
import type { Mutable } from "../story.ts";

const { recovery: RULES } = POLICY.defaults;
const BEAT_MS = 500;

export class RecoveryTelling extends HandoffTelling {
  /** Since the budget was whole. */
  tries = 0;
  failures = 0;
  #alerts = 0;

  /** An agent takes the task, says so, and writes a checkpoint with so many items done. */
  works(agent = "a", items = 1): void {
    this.write({ op: "take", agent });
    this.beat(agent);
    this.done(items, agent);
  }

  beat(agent: string, stepDeadline: number | null = null): void {
    const [sentAt, heardAt] = [this.wallMs, this.wallMs + 1];
    this.beats.push({ agent, task: this.task, fence: this.fence, sentAt, heardAt, stepDeadline });
    this.wallMs += BEAT_MS;
  }

  /** A checkpoint with so many different items done, some of them perhaps twice. */
  done(
    items: number,
    agent: string,
    names = Array.from({ length: items }, (_, i) => `item ${i}`),
  ): Mutable<Attempt> {
    const attempt = this.write({ op: "create", agent, fence: this.fence });
    this.body(attempt, names);
    return attempt;
  }

  /** What the command of a checkpoint says. */
  body({ command_id: id }: Attempt, items: readonly string[], parents?: readonly string[]): void {
    const completed_items = items.map((title) => ({ title }));
    const metadata = { agent_type: "worker", ...(parents && { parent_ids: parents }) };
    const body = JSON.stringify({
      checkpoint: { metadata, execution_state: { phase: "implementing", completed_items } },
    });
    this.sent.set(id!, { line: "sent", command_id: id!, subject: "", body });
  }

  /** Its heart stops; after the silence it counts as dead. */
  dies(): void {
    this.wallMs += RULES.silence_ms;
    this.fail("lease_lapsed", "crash");
  }

  /** It says itself that it failed. */
  reports(failureClass: FailureClass, agent = this.owner!): void {
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
    this.moved("fail", "waiting", facts, this.state === "blocked" ? "active" : this.state);
    this.wallMs += action === "back_off" ? RULES.back_off_ms : 10;
  }

  /** The attempt and the handoff that makes it; returns the handoff's id. */
  attempt(from = this.current.at(-1)!.checkpoint_id): string {
    this.tries += 1;
    const id = `attempt-${this.entries.length}`;
    const rung = this.tries <= RULES.attempts ? "latest" : "previous";
    this.moved("recover", "attempted", {
      attempt: this.tries,
      rung,
      from_checkpoint: from,
      handoff_id: id,
    });
    this.begin(id, null);
    return id;
  }

  /** Somebody takes the handoff and writes; with more done than ever, the budget is whole again. */
  resumes(id: string, agent: string, items: number): Mutable<Attempt> {
    this.offer(id);
    this.accept(id, agent);
    this.beat(agent);
    const first = this.confirm(id, agent);
    this.body(
      first,
      Array.from({ length: items }, (_, i) => `item ${i}`),
    );
    this.moved("resume", "resumed", { command_id: first.command_id!, first_checkpoint: first.command_id! });
    return first;
  }

  recovers(agent: string, items: number): Mutable<Attempt> {
    return this.resumes(this.attempt(), agent, items);
  }

  /** Somebody starts the agent that failed again: it takes the task by name, and that is the attempt. */
  restarts(agent: string): void {
    const { command_id } = this.write({ op: "take", agent });
    this.tries += 1;
    const rung = this.tries <= RULES.attempts ? "latest" : "previous";
    const facts = { command_id: command_id!, reason: "superseded", attempt: this.tries, rung };
    this.moved("settle", "idle", facts);
    this.beat(agent);
  }

  /** More than ever is done. */
  progresses(items: number, agent: string): void {
    const { command_id } = this.done(items, agent);
    this.settles(command_id!);
  }

  settles(command: string): void {
    this.tries = 0;
    this.failures = 0;
    this.moved("settle", "idle", { command_id: command, reason: "progress" });
  }

  /** Somebody asks for a handoff in place of the attempt that is due. */
  handsOffInstead(agent: string): string {
    return this.initiate(agent, undefined, (command_id) =>
      this.moved("settle", "idle", { command_id, reason: "superseded" }),
    );
  }

  /** Somebody takes a handoff back that would have brought the task on, which waits for a person then. */
  takesBack(id: string, agent: string): void {
    const { command_id } = this.withdraw(id, agent);
    this.moved("block", "blocked", { command_id: command_id!, reason: "withdrawn" }, "blocked");
    this.warn("withdrawn");
  }

  /** Somebody takes the task that waits for a person, and fails before it has written; nobody is told again. */
  failsUnwritten(agent: string, reason: string): void {
    const alerted_seq = this.entries.findLast(({ op }) => op === "block")!.seq;
    const { command_id } = this.write({ op: "take", agent });
    this.moved("settle", "idle", { command_id: command_id!, reason: "superseded" });
    this.reports("crash");
    this.moved("block", "blocked", { reason, alerted_seq }, "blocked");
  }

  blocks(reason: string): void {
    this.moved("block", "blocked", { reason }, "blocked");
    this.warn(reason);
  }

  warn(reason: string): void {
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

  /** Bytes of a checkpoint are changed. */
  damage(checkpoint: string): void {
    this.damages.push({
      line: "damage",
      at: 0,
      wall: this.wallMs,
      task: this.task,
      checkpoint_id: checkpoint,
    });
    for (const name of this.hashes.keys()) if (name.startsWith(`${checkpoint}/`)) this.hashes.delete(name);
  }

  moved(op: string, to: string, facts: object, state = this.state): void {
    const from = this.recovery ?? "idle";
    this.recovery = to;
    this.enter(op, { ...facts, recovery_from: from, recovery_to: to }, state);
  }
}
