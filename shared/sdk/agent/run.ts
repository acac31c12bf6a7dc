/**
 * One agent's turn at a task: the state of the work, and the checkpoints that keep it. The work changes `state` as it likes and says
 * what happened; when a checkpoint is due it is written, and when a trigger fires the task is handed off at that point. Each of the
 * methods that return a promise is such a point, and throws {@link RunOver} when the run is over.
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
import { CheckpointPolicy, type CheckpointRules, type Occasion } from "./checkpoint-policy.ts";
import { reasonText, triggerOf } from "./messages.ts";
import { RunOver } from "./run-ended.ts";
import { sameItem, type WorkItem, type WorkState } from "./state.ts";
import { TriggerMonitor } from "./trigger-monitor.ts";

export interface Usage {
  /** Tokens that are in the context now; with `contextLimit` they say how full it is. */
  readonly tokensConsumed?: number;
  readonly contextLimit?: number;
  /** How full the context is, from 0 to 1, where the agent knows it itself. */
  readonly contextUtilization?: number;
  readonly toolsInvoked?: number;
}

export interface RunParts {
  readonly task: TaskHandle;
  readonly agentType: string;
  readonly sessionId: string | undefined;
  readonly workspace: string | undefined;
  readonly found: Checkpoint | null;
  readonly drift: WorkspaceDrift | null;
  readonly offer: OfferData | null;
  readonly prompt: string | null;
  readonly state: WorkState;
  readonly rules: CheckpointRules;
  readonly thresholds: Partial<TriggerThresholds> | undefined;
  readonly clock: Clock;
  /** Tells whoever watches the agent until when its step may take; undefined: as long as it likes. */
  readonly sayStepDeadline: (at: string | undefined) => void;
}

interface Writing {
  readonly reason: TriggerReason;
  readonly details?: string | undefined;
  readonly state?: WorkState;
  readonly parents?: readonly string[];
  readonly handoff?: HandoffDetails;
}

export class AgentRun {
  readonly #parts: RunParts;
  readonly #policy: CheckpointPolicy;
  readonly #monitor: TriggerMonitor;
  readonly #ending = new AbortController();
  #writing: Promise<unknown> = Promise.resolve();
  #over: RunOver | undefined;
  #lastId: string | null;
  #hasDeadline = false;
  /** The state of the work, in the sections and under the names of a checkpoint; change it freely. */
  readonly state: WorkState;

  constructor(parts: RunParts) {
    this.#parts = parts;
    this.state = parts.state;
    this.#policy = new CheckpointPolicy(parts.rules, parts.clock);
    this.#monitor = new TriggerMonitor(parts.thresholds);
    this.#lastId = parts.found?.metadata.checkpoint_id ?? null;
  }

  get taskId(): string {
    return this.#parts.task.id;
  }

  get fence(): number {
    return this.#parts.task.fence ?? 0;
  }

  /** Where this run continues; null for a task that begins. */
  get resumedFrom(): Checkpoint | null {
    return this.#parts.found;
  }

  /** How the workspace stands beside what the checkpoint says of it; null when that is not known. Nothing is ever reset. */
  get drift(): WorkspaceDrift | null {
    return this.#parts.drift;
  }

  /** What to tell the model to continue; null for a task that begins. */
  get prompt(): string | null {
    return this.#parts.prompt;
  }

  get offer(): OfferData | null {
    return this.#parts.offer;
  }

  /** Aborted when the run is over: handed off, taken over by another agent, or stopped. Give it to whatever takes long. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  get over(): RunOver | undefined {
    return this.#over;
  }

  /** The newest checkpoint of this run, else the one that it resumed from. */
  get checkpointId(): string | null {
    return this.#lastId;
  }

  /** What is pending, one after the other, also what is added meanwhile; each once, whether it gets done or not. */
  *items(): Generator<WorkItem> {
    const seen = new Set<WorkItem>();
    for (;;) {
      const next = this.state.execution_state.pending_items.find((item) => !seen.has(item));
      if (next === undefined) return;
      seen.add(next);
      yield next;
    }
  }

  /** An item is done: it moves from pending to completed. A point at which a checkpoint may be written or the task handed off. */
  async done(item: WorkItem | string, facts: Partial<WorkItem> = {}): Promise<void> {
    this.#requireOn();
    const work = this.state.execution_state;
    const known = work.pending_items.find((one) => sameItem(one, item));
    work.pending_items = work.pending_items.filter((one) => one !== known);
    work.completed_items.push({
      ...(known ?? (typeof item === "string" ? { title: item } : item)),
      ...facts,
    });
    await this.#pass("item");
  }

  /** The work goes on in another phase; by the policy, an agent that is good at it may take over here. */
  async phase(next: Exclude<Phase, "handoff">): Promise<void> {
    this.#requireOn();
    this.state.execution_state.phase = next;
    await this.#pass("phase", { isPhaseComplete: true }, { nextPhase: next });
  }

  /**
   * Before something that takes long or may break: what is known so far is written down. `withinMs`: who is still at it after so long
   * counts as hung, though it lives; until the next point of the work.
   */
  async beforeLong(details: string, { withinMs }: { readonly withinMs?: number } = {}): Promise<void> {
    await this.#pass("long_operation", {}, {}, details);
    if (withinMs === undefined) return;
    this.#hasDeadline = true;
    this.#parts.sayStepDeadline(new Date(this.#parts.clock.now() + withinMs).toISOString());
  }

  /** Something failed, and the work goes on all the same. Enough of these, and somebody else should try. */
  async failed(error: unknown): Promise<void> {
    this.#requireOn();
    this.#countError();
    await this.#pass("error", {}, {}, reasonText(error));
  }

  /** The vendor refuses requests: by the policy, an agent of another one may take over. */
  async rateLimited(limit: { readonly resetsAt?: string; readonly details?: string } = {}): Promise<void> {
    this.#requireOn();
    this.state.metrics.rate_limit = toSnake(limit);
    await this.#pass("error", {}, {}, limit.details ?? "the vendor refuses requests");
  }

  /** How full the context is. It counts at the next point, since what is under way should come to its end. */
  usage(usage: Usage): void {
    Object.assign(this.state.metrics, toSnake(usage));
    this.#policy.changed();
  }

  /** A point of the work's own: a checkpoint if one is due, a handoff if a trigger fires. */
  checkIn(): Promise<void> {
    return this.#pass("time");
  }

  /** A checkpoint now. */
  async checkpoint(details?: string): Promise<CheckpointOutcome> {
    this.#requireOn();
    return this.#write({ reason: "manual", details });
  }

  /** Hands the task off here and now; the run is over, which this throws. */
  handOff(wish: HandoffDetails = {}): Promise<never> {
    return this.#handOff([], wish);
  }

  /** The first checkpoint after an acknowledgement, linked to the one that was handed over: it confirms the handoff. */
  async begin(): Promise<void> {
    const from = this.#lastId;
    await this.#write({ reason: "reassignment", ...(from !== null && { parents: [from] }) });
  }

  /** Time went by. Hands off only at a point of the work itself. */
  async tick(): Promise<number> {
    const due = this.#policy.due("time");
    if (due !== null && this.#over === undefined) await this.#write({ reason: due });
    return this.#policy.untilPeriodicMs();
  }

  /** The last checkpoint of work that ended, in whatever way. */
  async last(reason: TriggerReason, details?: string, error?: unknown): Promise<CheckpointOutcome> {
    if (error !== undefined) this.#countError();
    return this.#write({ reason, details });
  }

  /** The first end counts. */
  end(over: RunOver): RunOver {
    if (this.#over !== undefined) return this.#over;
    this.#over = over;
    this.#ending.abort(over);
    return over;
  }

  /** Hands off because the agent is stopped: the run is over already, and its task goes on elsewhere. */
  async handOffStopped(): Promise<string> {
    return (await this.#writeHandoff([], { reason: "the agent was stopped" })).checkpointId;
  }

  async #pass(
    occasion: Occasion,
    signs: Partial<TriggerSigns> = {},
    wish: HandoffDetails = {},
    details?: string,
  ): Promise<void> {
    this.#requireOn();
    if (this.#hasDeadline) this.#parts.sayStepDeadline(undefined);
    this.#hasDeadline = false;
    const due = this.#policy.due(occasion);
    const asked = this.#monitor.toAsk(this.#signs(signs));
    if (due !== null || asked !== undefined) {
      const reason = due ?? triggerOf(asked);
      await this.#write({ reason, details: details ?? (due === null ? reasonText(asked) : undefined) });
    }
    const fired = this.#monitor.fired(this.#signs(signs));
    if (fired.length > 0) await this.#handOff(fired, wish);
  }

  #signs(signs: Partial<TriggerSigns>): TriggerSigns {
    const { metrics } = this.state;
    return { ...signsOf({ metadata: { trigger: { reason: "progress" } }, metrics }), ...signs };
  }

  #countError(): void {
    this.state.metrics.error_count = (this.state.metrics.error_count ?? 0) + 1;
  }

  async #handOff(fired: readonly FiredTrigger[], wish: HandoffDetails): Promise<never> {
    this.#requireOn();
    await this.#writeHandoff(fired, wish);
    throw this.#over;
  }

  async #writeHandoff(fired: readonly FiredTrigger[], wish: HandoffDetails): Promise<CheckpointOutcome> {
    const { phase, pending_items, resume_pointer } = this.state.execution_state;
    const [first] = fired;
    const reason = wish.reason ?? (first && reasonText(first));
    const next_action = resume_pointer?.next_action ?? pending_items[0]?.title ?? "Go on with the task";
    const execution_state = {
      ...this.state.execution_state,
      phase: "handoff" as const,
      resume_pointer: { ...resume_pointer, next_action, phase: wish.nextPhase ?? phase },
    };
    return this.#write({
      reason: triggerOf(first),
      details: reason,
      state: { ...this.state, execution_state },
      handoff: { ...wish, reason },
    });
  }

  /** One after the other, in the order in which they were asked for. */
  #write(writing: Writing): Promise<CheckpointOutcome> {
    const written = this.#writing.then(() => this.#send(writing));
    this.#writing = written.catch(() => {});
    return written;
  }

  async #send({
    reason,
    details,
    state = this.state,
    parents,
    handoff,
  }: Writing): Promise<CheckpointOutcome> {
    const { task, agentType, sessionId, workspace, found } = this.#parts;
    // Nothing goes behind the last word.
    if (this.#over !== undefined && this.#over.ending !== "stopped") throw this.#over;
    const recovery =
      workspace === undefined ? state.recovery : await withWorkspace(state.recovery, workspace);
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
      const outcome = await task.checkpoint(checkpoint, { handoff });
      this.#lastId = outcome.checkpointId;
      this.#policy.written();
      this.#monitor.heard(outcome);
      // A handoff has the id of the command that opened it.
      if (handoff !== undefined) this.end(new RunOver("handed_off", { handoffId: outcome.checkpointId }));
      return outcome;
    } catch (error) {
      if (error instanceof FleetError && error.code === "FENCED") {
        throw this.end(new RunOver("fenced", { cause: error }));
      }
      throw error;
    }
  }

  #requireOn(): void {
    if (this.#over !== undefined) throw this.#over;
  }
}

async function withWorkspace(
  recovery: WorkState["recovery"],
  folder: string,
): Promise<WorkState["recovery"]> {
  return { ...recovery, workspace: await takeWorkspace(folder) };
}
