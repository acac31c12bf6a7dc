/** Scripted histories of removals: the steps of a correct fleet with retention, of which a test changes a fact. */
import type { RemovalReason } from "../../../../../shared/protocol/retention.ts";
import type { CallAttempt } from "../../agents/history.ts";
import { POLICY } from "../../environment/policy.ts";
import { versionName } from "../evidence.ts";
import { ScriptedRecoveries } from "../recovery/scripted-recoveries.ts";
import type { Mutable } from "../scripted-history.ts";

const { max: MAX } = POLICY.defaults.retention;

export class ScriptedRemovals extends ScriptedRecoveries {
  /** Writes checkpoints and returns their ids. */
  create(count: number): string[] {
    return Array.from({ length: count }, () => this.write({ op: "create" }).command_id!);
  }

  /** As many checkpoints as retention keeps, and `over` more. */
  createOver(over: number): string[] {
    return this.create(MAX + over);
  }

  /** Removes a checkpoint, as the sweep does. */
  remove(id: string, reason: RemovalReason = "count", commandId: string | null = null): void {
    const index = this.current.findIndex(({ checkpoint_id }) => checkpoint_id === id);
    const { version } = this.current.splice(index, 1)[0]!;
    const hash = this.hashes.get(versionName(id, version))!;
    for (let n = 1; n <= version; n += 1) this.hashes.delete(versionName(id, n));
    const facts = { reason, retention_policy: "working" };
    const removed = { checkpoint_id: id, version, old_hash: hash, new_hash: null };
    this.transition("remove", { command_id: commandId, ...removed, ...facts });
    const { seq, at } = this.entries.at(-1)!;
    this.removed.push({
      ...{ checkpoint_id: id, task_id: this.task, seq: this.#placeOf(id), version, hash },
      ...{ removed_at: at, ...facts, removed_by: "writer", audit_seq: seq },
    });
  }

  /** The number of a checkpoint among those of the task. */
  #placeOf(id: string): number {
    const created = this.entries.filter(({ op }) => op === "create");
    return 1 + created.findIndex(({ checkpoint_id }) => checkpoint_id === id);
  }

  /** An operator removes a checkpoint; `keep` of the newest stay. */
  removeOnRequest(id: string, keep?: number): Mutable<CallAttempt> {
    const attempt = this.call({ op: "remove", agent: "operator" });
    const command = attempt.command_id!;
    const body = JSON.stringify({ command_id: command, checkpoint_id: id, keep });
    this.sent.set(command, { line: "sent", command_id: command, subject: "", body });
    this.remove(id, "request", command);
    const { version, hash, seq } = this.removed.at(-1)!;
    const answer = { checkpoint_id: id, version, seq, hash, fence: null, handoff: null };
    attempt.outcome = "committed";
    attempt.committed = { ...answer, position: String(this.entries.length) };
    return attempt;
  }

  /** An operator changes the holds of the task. */
  hold(holds: readonly string[]): void {
    const attempt = this.call({ op: "hold", agent: "operator" });
    this.transition("hold", { command_id: attempt.command_id!, holds });
    const nothing = { checkpoint_id: null, version: null, seq: null, hash: null, fence: null, handoff: null };
    attempt.outcome = "committed";
    attempt.committed = { ...nothing, position: String(this.entries.length) };
  }

  /** The task is completed by its newest checkpoint. */
  completeTask(): void {
    const id = this.current.at(-1)!.checkpoint_id;
    this.state = "active";
    const owner = this.owner === null ? {} : { agent: this.owner, fence: this.fence };
    const attempt = this.write({ op: "finalize", checkpoint: id, ...owner });
    Object.assign(this.entries.at(-1)!, { state_to: "completed", final_status: "succeeded" });
    this.state = "completed";
    attempt.outcome = "committed";
  }
}
