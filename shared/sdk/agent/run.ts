/**
 * The run of one agent on a task: the state of the work and its checkpoints. The work changes `state` freely and reports its progress.
 * Each method that returns a promise is a point at which a due checkpoint is written and a fired trigger hands the task off. These
 * methods throw {@link RunEnded} once the run has ended.
 */
import type {
  Checkpoint,
  CheckpointInput,
  FiredTrigger,
  Phase,
  TriggerReason,
} from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { OfferData } from "../../protocol/offer.ts";
import { signsOf, type TriggerSigns, type TriggerThresholds } from "../../protocol/triggers.ts";
import type { WorkspaceDrift } from "../../protocol/workspace.ts";
import type { Clock } from "../../runtime/clock.ts";
import { toSnake } from "../case-convert.ts";
import type { HandoffDetails } from "../client/options.ts";
import type { CheckpointOutcome } from "../client/outcome.ts";
import type { TaskHandle } from "../client/task.ts";
import { takeWorkspace } from "../workspace/snapshot.ts";
import { CheckpointPolicy, type CheckpointRules, type Occasion } from "./checkpoints/checkpoint-policy.ts";
import { CheckpointWriter } from "./checkpoints/checkpoint-writer.ts";
import { reasonText, triggerOf } from "./messages.ts";
import { filesOfItem, type ItemWithoutFiles } from "./missing-files.ts";
import { RunEnded } from "./run-ended.ts";
import { performOnce, type SideEffect } from "./side-effects.ts";
import { attachArtifact, sameItem, type WorkItem, type WorkState } from "./state.ts";
import { TriggerMonitor } from "./triggers/trigger-monitor.ts";
import { type Usage, UsageRecorder } from "./triggers/usage.ts";

export interface RunParts {
  readonly task: TaskHandle;
  readonly agentId: string;
  readonly agentType: string;
  readonly sessionId: string | undefined;
  readonly workspace: string | undefined;
  readonly found: Checkpoint | null;
  readonly drift: WorkspaceDrift | null;
  readonly missing: readonly ItemWithoutFiles[];
  readonly offer: OfferData | null;
  readonly prompt: string | null;
  readonly state: WorkState;
  readonly rules: CheckpointRules;
  readonly thresholds: Partial<TriggerThresholds> | undefined;
  readonly clock: Clock;
  /** Announces the deadline of the current step in the heartbeats; undefined: no deadline. */
  readonly setStepDeadline: (at: string | undefined) => void;
}

interface CheckpointRequest {
  readonly reason: TriggerReason;
  readonly details?: string | undefined;
  readonly state?: WorkState;
  readonly parents?: readonly string[];
  readonly handoff?: HandoffDetails;
  /** The caller needs the checkpoint in the store: it is neither queued nor spooled. */
  readonly mustCommit?: true;
}

export class AgentRun {
  readonly #parts: RunParts;
  readonly #policy: CheckpointPolicy;
  readonly #monitor: TriggerMonitor;
  readonly #writer: CheckpointWriter;
  readonly #usage = new UsageRecorder();
  readonly #abort = new AbortController();
  #writes: Promise<unknown> = Promise.resolve();
  #ended: RunEnded | undefined;
  #lastId: string | null;
  #hasStepDeadline = false;
  /** The state of the work, in the sections and under the names of a checkpoint. Change it freely. */
  readonly state: WorkState;

  constructor(parts: RunParts) {
    this.#parts = parts;
    this.state = parts.state;
    this.#policy = new CheckpointPolicy(parts.rules, parts.clock);
    this.#monitor = new TriggerMonitor(parts.thresholds);
    this.#lastId = parts.found?.metadata.checkpoint_id ?? null;
    this.#writer = new CheckpointWriter(parts.task, parts.rules.inPlace ?? false);
  }

  get taskId(): string {
    return this.#parts.task.id;
  }

  get fence(): number {
    return this.#parts.task.fence ?? 0;
  }

  /** The checkpoint from which this run continues; null for a new task. */
  get resumedFrom(): Checkpoint | null {
    return this.#parts.found;
  }

  /** The differences between the workspace and its record in the checkpoint; null if unknown. The workspace is never reset. */
  get drift(): WorkspaceDrift | null {
    return this.#parts.drift;
  }

  /** The items that were completed before this run and whose files are not in the workspace. */
  get missing(): readonly ItemWithoutFiles[] {
    return this.#parts.missing;
  }

  /** The continuation prompt for the model; null for a new task. */
  get prompt(): string | null {
    return this.#parts.prompt;
  }

  get offer(): OfferData | null {
    return this.#parts.offer;
  }

  /** Aborted when the run ends: handed off, fenced or stopped. Pass it to every long operation. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get ended(): RunEnded | undefined {
    return this.#ended;
  }

  /** The newest checkpoint of this run, else the one that it continues from. */
  get checkpointId(): string | null {
    return this.#lastId;
  }

  /** The pending items one after the other, including items that are added meanwhile. Each item once, done or not. */
  *items(): Generator<WorkItem> {
    const seen = new Set<WorkItem>();
    for (;;) {
      const next = this.state.execution_state.pending_items.find((item) => !seen.has(item));
      if (next === undefined) return;
      seen.add(next);
      yield next;
    }
  }

  /** Moves an item from pending to completed. */
  async done(item: WorkItem | string, facts: Partial<WorkItem> = {}): Promise<void> {
    this.#requireActive();
    const work = this.state.execution_state;
    const known = work.pending_items.find((one) => sameItem(one, item));
    work.pending_items = work.pending_items.filter((one) => one !== known);
    work.completed_items.push({
      at: this.#now(),
      ...(known ?? (typeof item === "string" ? { title: item } : item)),
      ...facts,
    });
    await this.#pass("item");
  }

  /** Records a decision for the next agent, with its time. */
  decide(decision: string, rationale?: string): void {
    const reasoned = { decision, ...(rationale !== undefined && { rationale }), at: this.#now() };
    this.state.context_summary.key_decisions.push(reasoned);
    this.#policy.changed();
  }

  /**
   * Performs an effect that leaves no file, such as an API call, once per task: claimed in a committed checkpoint before, completed
   * after. Returns the result of an effect that is completed already. Throws CONFLICT for one that an earlier attempt claimed, unless
   * `verify` finds out whether it has happened; any error of a store that cannot commit the claim; and the errors of `act`.
   */
  sideEffect(effect: SideEffect, act: () => Promise<string | undefined>): Promise<string | undefined> {
    this.#requireActive();
    const commit = async (details: string) => {
      await this.#write({ reason: "before_long_operation", details, mustCommit: true });
    };
    const parts = { state: this.state, agentId: this.#parts.agentId, now: () => this.#now(), commit };
    return performOnce(parts, effect, act);
  }

  /** Continues the work in another phase. The policy may hand the task to an agent type for that phase. */
  async phase(next: Exclude<Phase, "handoff">): Promise<void> {
    this.#requireActive();
    this.state.execution_state.phase = next;
    await this.#pass("phase", { isPhaseComplete: true }, { nextPhase: next });
  }

  /**
   * Writes a checkpoint before an operation that is long or may fail. `withinMs`: an agent that has not reached the next point of the
   * work by then counts as hung, although it is alive.
   */
  async beforeLong(details: string, { withinMs }: { readonly withinMs?: number } = {}): Promise<void> {
    await this.#pass("long_operation", {}, {}, details);
    if (withinMs === undefined) return;
    this.#hasStepDeadline = true;
    this.#parts.setStepDeadline(new Date(this.#parts.clock.now() + withinMs).toISOString());
  }

  /** Writes a checkpoint before the work turns to a new message with priority. */
  async priorityMessage(details: string): Promise<void> {
    await this.#pass("priority_message", {}, {}, details);
  }

  /** Counts an error after which the work continues. After too many, the task is handed off. */
  async failed(error: unknown): Promise<void> {
    this.#requireActive();
    this.#countError();
    await this.#pass("error", {}, {}, reasonText(error));
  }

  /** Records that the model vendor refuses requests. The policy may hand the task to an agent with another vendor. */
  async rateLimited(limit: { readonly resetsAt?: string; readonly details?: string } = {}): Promise<void> {
    this.#requireActive();
    this.state.metrics.rate_limit = toSnake(limit);
    await this.#pass("error", {}, {}, limit.details ?? "the vendor refuses requests");
  }

  /** Records the usage of context, tokens and money. It is evaluated at the next point, so that the current step can finish. */
  usage(usage: Usage): void {
    this.#usage.record(this.state.metrics, usage);
    this.#policy.changed();
  }

  /** A point without progress: writes a checkpoint if one is due, hands off if a trigger fires. */
  checkIn(): Promise<void> {
    return this.#pass("time");
  }

  /** Writes a checkpoint now. */
  async checkpoint(details?: string): Promise<CheckpointOutcome> {
    this.#requireActive();
    return this.#write({ reason: "manual", details });
  }

  /** Uploads a file or a stream. All later checkpoints reference it, until it is removed from `state.artifacts`. */
  attach(...source: Parameters<TaskHandle["attach"]>): ReturnType<TaskHandle["attach"]> {
    this.#requireActive();
    return attachArtifact(this.state, this.#parts.task.attach(...source));
  }

  /** Hands the task off now, which ends the run: it throws {@link RunEnded}. */
  handOff(details: HandoffDetails = {}): Promise<never> {
    return this.#handOff([], details);
  }

  /**
   * Writes the initial state of a task without checkpoints: until then, no other agent could continue the task. The work begins
   * without it if it cannot be written.
   */
  async writeInitial(): Promise<void> {
    if (this.#ended !== undefined) return;
    await this.#write({ reason: "manual", details: "the task begins" }).catch((error: unknown) => {
      if (error instanceof RunEnded) throw error;
      this.#policy.changed();
    });
  }

  /** Confirms a handoff by a first checkpoint, linked to the one that was handed over. */
  async confirmHandoff(): Promise<void> {
    const from = this.#lastId;
    await this.#write({ reason: "reassignment", ...(from !== null && { parents: [from] }) });
  }

  /** Writes the periodic checkpoint if it is due; never hands off. Returns the milliseconds until the next one. */
  async tick(): Promise<number> {
    const due = this.#policy.due("time");
    if (due !== null && this.#ended === undefined) await this.#write({ reason: due });
    return this.#policy.untilPeriodicMs();
  }

  /** Writes the last checkpoint of work that has ended. */
  async writeLast(reason: TriggerReason, details?: string, error?: unknown): Promise<CheckpointOutcome> {
    if (error !== undefined) this.#countError();
    return this.#write({ reason, details });
  }

  /** Only the first end counts. */
  end(ended: RunEnded): RunEnded {
    if (this.#ended !== undefined) return this.#ended;
    this.#ended = ended;
    this.#abort.abort(ended);
    return ended;
  }

  /** Hands off the task of an agent that was stopped. Returns the id of the handoff. */
  async handOffStopped(): Promise<string> {
    return (await this.#writeHandoff([], { reason: "the agent was stopped" })).checkpointId;
  }

  async #pass(
    occasion: Occasion,
    signs: Partial<TriggerSigns> = {},
    handoff: HandoffDetails = {},
    details?: string,
  ): Promise<void> {
    this.#requireActive();
    if (this.#hasStepDeadline) this.#parts.setStepDeadline(undefined);
    this.#hasStepDeadline = false;
    const due = this.#policy.due(occasion);
    const unjudged = this.#monitor.unjudged(this.#signs(signs));
    if (due !== null || unjudged !== undefined) {
      const reason = due ?? triggerOf(unjudged);
      await this.#write({ reason, details: details ?? (due === null ? reasonText(unjudged) : undefined) });
    }
    const fired = this.#monitor.fired(this.#signs(signs));
    if (fired.length > 0) await this.#handOff(fired, handoff);
  }

  #signs(signs: Partial<TriggerSigns>): TriggerSigns {
    return { ...signsOf({ metadata: { trigger: { reason: "progress" } }, ...this.state }), ...signs };
  }

  #countError(): void {
    this.state.metrics.error_count = (this.state.metrics.error_count ?? 0) + 1;
  }

  async #handOff(fired: readonly FiredTrigger[], handoff: HandoffDetails): Promise<never> {
    this.#requireActive();
    await this.#writeHandoff(fired, handoff);
    throw this.#ended;
  }

  async #writeHandoff(fired: readonly FiredTrigger[], handoff: HandoffDetails): Promise<CheckpointOutcome> {
    const { phase, pending_items, resume_pointer } = this.state.execution_state;
    const [first] = fired;
    const reason = handoff.reason ?? (first && reasonText(first));
    const next_action = resume_pointer?.next_action ?? pending_items[0]?.title ?? "Continue the task";
    const execution_state = {
      ...this.state.execution_state,
      phase: "handoff" as const,
      resume_pointer: { ...resume_pointer, next_action, phase: handoff.nextPhase ?? phase },
    };
    return this.#write({
      reason: triggerOf(first),
      details: reason,
      state: { ...this.state, execution_state, recovery: this.#ownRecovery() },
      handoff: { ...handoff, reason },
    });
  }

  /** Without the continuation prompt of the agent before, which was written for this run. */
  #ownRecovery(): WorkState["recovery"] {
    const { continuation_prompt: prompt, continuation_prompt_source: _, ...rest } = this.state.recovery;
    const isOwn = prompt !== undefined && prompt !== this.#parts.found?.recovery.continuation_prompt;
    return isOwn ? { ...rest, continuation_prompt: prompt } : rest;
  }

  /** Writes the checkpoints one after the other, in the order of the requests. */
  #write(request: CheckpointRequest): Promise<CheckpointOutcome> {
    const written = this.#writes.then(() => this.#send(request));
    this.#writes = written.catch(() => {});
    return written;
  }

  async #send(request: CheckpointRequest): Promise<CheckpointOutcome> {
    const { reason, details, state = this.state, parents, handoff } = request;
    const { agentType, sessionId, workspace, found } = this.#parts;
    // A stopped run still writes its last checkpoint.
    if (this.#ended !== undefined && this.#ended.ending !== "stopped") throw this.#ended;
    const recovery = workspace === undefined ? state.recovery : await withWorkspace(state, workspace);
    const checkpoint = {
      ...state,
      recovery,
      metadata: {
        agent_type: agentType,
        iteration: (found?.metadata.iteration ?? 0) + 1,
        trigger: { reason, ...(details !== undefined && { details }) },
        ...(sessionId !== undefined && { session_id: sessionId }),
        ...(parents !== undefined && { parent_ids: [...parents] }),
      },
    } as CheckpointInput;
    try {
      const fallback = request.mustCommit && ("none" as const);
      const outcome = await this.#writer.write(checkpoint, { handoff, ...(fallback && { fallback }) });
      this.#lastId = outcome.checkpointId;
      this.#policy.written();
      this.#monitor.judged(outcome);
      // A handoff has the id of the command that opened it.
      if (handoff !== undefined) this.end(new RunEnded("handed_off", { handoffId: outcome.checkpointId }));
      return outcome;
    } catch (error) {
      if (error instanceof FleetError && error.code === "FENCED") {
        const owner = error.details.owner as string | null;
        throw this.end(new RunEnded("fenced", { owner, cause: error }));
      }
      throw error;
    }
  }

  #now(): string {
    return new Date(this.#parts.clock.now()).toISOString();
  }

  #requireActive(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }
}

/** Records the workspace: its uncommitted files, and those of the completed items, the newest of them first. */
async function withWorkspace(state: WorkState, folder: string): Promise<WorkState["recovery"]> {
  const items = state.execution_state.completed_items.toReversed();
  const files = [...new Set([...items.flatMap(filesOfItem), ...state.metrics.files_modified])];
  return { ...state.recovery, workspace: await takeWorkspace(folder, { files }) };
}
