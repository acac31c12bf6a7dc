/** A task: its commands and queries. A handle that was made by taking the task adds the fence to each command. */
import { handoverSummary } from "../../prompts/handover-summary.ts";
import type { AcknowledgedAnswer } from "../../protocol/answers.ts";
import type { ArtifactReference } from "../../protocol/artifacts.ts";
import type { CheckpointInput, FinalStatus } from "../../protocol/checkpoint.ts";
import type { CheckpointPage, LatestResult } from "../../protocol/checkpoint-pages.ts";
import { invalid } from "../../protocol/errors.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type { Task } from "../../protocol/task.ts";
import {
  type ArtifactOptions,
  type ArtifactSource,
  Artifacts,
  withArtifacts,
} from "../artifacts/artifacts.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import type { CommandDelivery, CommandOptions, DeliveryOptions } from "../delivery/command-delivery.ts";
import { type DisplayedCheckpoint, withAnswered } from "../esign/display.ts";
import type { RedactionMode } from "../redaction/secret-settings.ts";
import type { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";
import type { CheckpointTasks } from "./checkpoint-tasks.ts";
import type {
  CancelHandoffOptions,
  CreateOptions,
  FinalizeOptions,
  ForkOptions,
  HandOffOptions,
  HistoryOptions,
  UpdateOptions,
} from "./options.ts";
import {
  type CheckpointOutcome,
  type CommittedOutcome,
  checkpointOutcome,
  committedOutcome,
  type HandoffChange,
  type HandoffOutcome,
  handoffOutcome,
  resultOf,
} from "./outcome.ts";
import { shortened } from "./shorten.ts";
import {
  type OnWarning,
  warnOfCorrupt,
  warnOfLarge,
  warnOfRedacted,
  warnOfRestored,
  warnOfShortened,
} from "./warnings.ts";

export interface TaskParts {
  readonly delivery: CommandDelivery;
  readonly queries: QuerySender;
  readonly tasks: CheckpointTasks;
  readonly onWarning: OnWarning;
}

/** The agent owns the task, under the fence of the handle. It must write its first checkpoint before the deadline. */
export interface AcceptedHandoff extends Omit<Camel<AcknowledgedAnswer>, "status"> {
  readonly task: TaskHandle;
}

export class TaskHandle {
  readonly #parts: TaskParts;
  #redaction: RedactionMode | undefined;
  readonly id: string;
  /** The fence under which the agent owns the task; undefined if it does not own it. */
  readonly fence: number | undefined;

  /** Stored artifacts that the next checkpoint will reference. */
  #attached: readonly ArtifactReference[] = [];

  constructor(parts: TaskParts, id: string, fence: number | undefined) {
    this.#parts = parts;
    this.id = id;
    this.fence = fence;
  }

  /** From now on the handle is for what a program captures: secrets are removed, unless the client has `redaction: "off"`. */
  capture(): void {
    this.#redaction = "automatic";
  }

  /** Content that a checkpoint has in an encoded form, without its secrets; as it is, if the client removes none from such commands. */
  async withoutSecrets<T>(content: T, redaction?: RedactionMode): Promise<T> {
    const { delivery, onWarning } = this.#parts;
    const clean = await delivery.withoutSecrets(content, redaction ?? this.#redaction);
    if (clean.report.length > 0) warnOfRedacted(onWarning, this.id, clean.report);
    return clean.content;
  }

  /**
   * Uploads a file or a stream, and references it in the next checkpoint that this handle writes. A checkpoint is the whole state:
   * later ones reference it only if they name it too. Throws TOO_LARGE over a limit.
   */
  async attach(source: ArtifactSource, options: ArtifactOptions = {}): Promise<ArtifactReference> {
    const reference = await new Artifacts(this.#parts.queries).put(source, options);
    this.#attached = withArtifacts(this.#attached, [reference]);
    return reference;
  }

  async checkpoint(checkpoint: CheckpointInput, options: CreateOptions = {}): Promise<CheckpointOutcome> {
    const { handoff } = options;
    const attached = this.#attached;
    const body = {
      checkpoint: withContinuationPrompt(withAttached(checkpoint, attached)),
      ...(handoff !== undefined && { handoff: toSnake(handoff) }),
      ...included(options),
    };
    const shorten = (members: object) => this.#shortened(members as typeof body);
    const outcome = await this.#write("create", body, { ...options, shorten });
    this.#attached = this.#attached.filter((one) => !attached.includes(one));
    return outcome;
  }

  #shortened<Body extends { readonly checkpoint: CheckpointInput }>(body: Body): Body {
    const { checkpoint, leftOut } = shortened(body.checkpoint);
    if (leftOut.length > 0) warnOfShortened(this.#parts.onWarning, this.id, leftOut);
    return { ...body, checkpoint };
  }

  /** `patch`: a JSON merge patch (RFC 7396); null removes a member, arrays are replaced. */
  async update(
    checkpointId: string,
    patch: Record<string, unknown>,
    options: UpdateOptions = {},
  ): Promise<CheckpointOutcome> {
    const checkpoint_id = normalizeCheckpointId(checkpointId);
    return this.#write("update", { checkpoint_id, patch, ...included(options) }, options, checkpoint_id);
  }

  async finalize(
    checkpointId: string,
    status: FinalStatus,
    options: FinalizeOptions = {},
  ): Promise<CheckpointOutcome> {
    const checkpoint_id = normalizeCheckpointId(checkpointId);
    const body = { checkpoint_id, status, retention_policy: options.retentionPolicy };
    return this.#write("finalize", body, options, checkpoint_id);
  }

  async link(parentId: string, childId: string, options: CommandOptions = {}): Promise<CheckpointOutcome> {
    const [parent_id, child_id] = [normalizeCheckpointId(parentId), normalizeCheckpointId(childId)];
    return this.#write("link", { parent_id, child_id }, options, child_id);
  }

  /**
   * Where to continue: the newest sound checkpoint, with the electronic signatures of its versions; null for a new task. Newer corrupt ones are reported
   * through `onWarning`.
   */
  async resume(options: CallOptions = {}): Promise<DisplayedCheckpoint | null> {
    const { checkpoint, ...beside } = await this.latest(options);
    return checkpoint && withAnswered(checkpoint, beside);
  }

  /** Like {@link resume}, with the checkpoints that were passed over. */
  async latest({ deadlineMs, signal }: CallOptions = {}): Promise<LatestResult> {
    const { queries, onWarning } = this.#parts;
    const result = await queries.send("latest", { taskId: this.id, deadlineMs, signal });
    warnOfCorrupt(onWarning, this.id, result.passed_over);
    warnOfRestored(onWarning, result);
    return result;
  }

  history(options: HistoryOptions & CallOptions = {}): Promise<CheckpointPage> {
    return this.#parts.queries.send("history", { ...options, taskId: this.id });
  }

  async state({ deadlineMs, signal }: CallOptions = {}): Promise<Task | null> {
    return (await this.#parts.queries.find("task", { taskId: this.id, deadlineMs, signal }))?.task ?? null;
  }

  /**
   * Releases the task, at once or behind its queued commands: it has no owner then and keeps its fence. Throws INVALID for a handle
   * without a fence, FENCED if the ownership was given to another agent or revoked.
   */
  async release(options: CommandOptions = {}): Promise<CheckpointOutcome["outcome"]> {
    const fence = options.fence ?? this.fence;
    if (fence === undefined) throw invalid("fence", "the fence under which the task was taken");
    return (await this.#parts.delivery.deliver("release", this.id, {}, this.#fenced({ ...options, fence })))
      .status;
  }

  /**
   * Requests a handoff. An agent that hands over its own work writes a last checkpoint in phase `handoff` instead. Throws CONFLICT while
   * another handoff of the task is open.
   */
  async handOff(options: HandOffOptions = {}): Promise<HandoffOutcome> {
    const { checkpointId: given, toAgentType, nextPhase, reason } = options;
    const checkpointId = given === undefined ? undefined : normalizeCheckpointId(given);
    const body = toSnake({ checkpointId, toAgentType, nextPhase, reason });
    const { delivery, onWarning } = this.#parts;
    const answer = await delivery.deliver("handoff", this.id, body, this.#fenced(options));
    if (answer.redacted !== undefined) warnOfRedacted(onWarning, this.id, answer.redacted);
    return handoffOutcome(answer);
  }

  /** Cancels a handoff that is not accepted yet. Throws CONFLICT if it is, or if none is open. */
  async cancelHandoff(options: CancelHandoffOptions = {}): Promise<HandoffChange> {
    const { handoffId, reason } = options;
    const body = toSnake({ handoffId, reason });
    return resultOf(
      await this.#parts.delivery.deliverNow("cancel_handoff", this.id, body, this.#fenced(options)),
    );
  }

  /**
   * Creates the task `newTaskId`, whose first checkpoint has the state of a checkpoint of this task. This task keeps its owner, its
   * fence and its time of the last write; the caller need not own it. Throws CONFLICT if the new task exists.
   */
  async fork(newTaskId: string, options: ForkOptions = {}): Promise<CommittedOutcome> {
    const { from, agentType, goal, note, ...call } = options;
    const body = {
      source_task_id: this.id,
      source_checkpoint_id: from === undefined ? undefined : normalizeCheckpointId(from),
      agent_type: agentType,
      goal,
      note,
    };
    const { delivery, tasks } = this.#parts;
    // Not queued: the caller would not know which checkpoint is copied.
    const answer = await delivery.deliverNow("fork", newTaskId, body, call);
    tasks.remember(answer.checkpoint_id, newTaskId);
    return committedOutcome(answer);
  }

  /** A command that writes a version of a checkpoint; undefined: of the one that it creates. */
  async #write(
    op: "create" | "update" | "finalize" | "link",
    body: object,
    options: DeliveryOptions,
    checkpointId?: string,
  ): Promise<CheckpointOutcome> {
    const { delivery, tasks, onWarning } = this.#parts;
    const answer = await delivery.deliver(op, this.id, body, this.#fenced(options));
    if (answer.redacted !== undefined) warnOfRedacted(onWarning, this.id, answer.redacted);
    const written = checkpointId ?? answer.command_id;
    tasks.remember(written, this.id);
    if (answer.status === "committed" && answer.warnings?.includes("large_checkpoint")) {
      warnOfLarge(onWarning, this.id, answer.checkpoint_id);
    }
    return checkpointOutcome(answer, checkpointId);
  }

  #fenced<Options extends CommandOptions>(options: Options): Options {
    return {
      ...options,
      fence: options.fence ?? this.fence,
      redaction: options.redaction ?? this.#redaction,
    };
  }
}

const included = ({ includeCheckpoint }: UpdateOptions) =>
  includeCheckpoint === true && { include_checkpoint: true };

function withAttached(checkpoint: CheckpointInput, attached: readonly ArtifactReference[]): CheckpointInput {
  if (attached.length === 0) return checkpoint;
  return { ...checkpoint, artifacts: withArtifacts(checkpoint.artifacts ?? [], attached) };
}

/** A checkpoint in phase `handoff` without a continuation prompt gets a generated one before it is sealed (seed 000, FR-004 step 2). */
function withContinuationPrompt(checkpoint: CheckpointInput): CheckpointInput {
  const { execution_state: work, recovery } = checkpoint;
  if (work?.phase !== "handoff" || recovery?.continuation_prompt !== undefined) return checkpoint;
  const generated = { continuation_prompt_source: "generated" as const };
  return {
    ...checkpoint,
    recovery: { ...recovery, continuation_prompt: handoverSummary(work), ...generated },
  };
}
