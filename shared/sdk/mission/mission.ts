/**
 * A mission: its commands and queries. A handle that carries the fence of the task acts for the coordinator; one
 * without a fence is a specialist's, which changes its own sorties.
 */

import { type RecoveryPrompt, recoveryPrompt } from "../../prompts/recovery-prompt.ts";
import type { CommandBodyInput } from "../../protocol/commands.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type { Mission, RecoveryContext } from "../../protocol/mission.ts";
import type {
  MissionAnswer,
  MissionCheckpointAnswer,
  MissionOp,
  ResumptionAnswer,
} from "../../protocol/mission-commands.ts";
import type { LOCK_COMMAND_SCHEMAS, Lock } from "../../protocol/mission-locks.ts";
import type {
  MailboxAnswer,
  MailboxEvent,
  MailboxPage,
  MESSAGE_COMMAND_SCHEMAS,
  MessageAnswer,
  MessagePage,
  MissionMessage,
} from "../../protocol/mission-messages.ts";
import type { ResumePreview, SortiePage } from "../../protocol/mission-queries.ts";
import type { PromptBudget } from "../../protocol/prompt.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import { pendingOutcome, type QueuedOutcome, resultOf, type SpooledOutcome } from "../client/outcome.ts";
import type { CommandOptions } from "../delivery/command-delivery.ts";
import type { CallOptions } from "../request/request.ts";
import { acquireFileLock, type FileLock, holdFile, type LockOptions, type LockResult } from "./file-lock.ts";
import type { MissionParts } from "./mission-parts.ts";
import { type ReceiveOptions, receiveMessages } from "./received-messages.ts";

type LockOp = keyof typeof LOCK_COMMAND_SCHEMAS;
type MessageOp = keyof typeof MESSAGE_COMMAND_SCHEMAS;

type Options = Omit<CommandOptions, "expectedVersion" | "fallback">;
/** A checkpoint may wait for the fleet: it records the mission as it is when it is applied. */
type RecordOptions = Omit<CommandOptions, "expectedVersion">;
type Body<Op extends MissionOp> = Omit<Camel<CommandBodyInput<Op>>, "commandId" | "fence">;

export type MissionStart = Body<"mission_start">;
export type NewSortie = Camel<CommandBodyInput<"sortie_add">["sorties"][number]>;
export type SortieChange = Omit<Body<"sortie_update">, "sortieId">;

/** The mission after a command. `checkpointId`: the checkpoint that it wrote. */
export type MissionResult = Omit<Camel<MissionAnswer>, "status">;
export type Resumption = Omit<Camel<ResumptionAnswer>, "status">;
export type MessageResult = Omit<Camel<MessageAnswer>, "status">;
export type MailboxSubscription = Omit<Camel<MailboxAnswer>, "status">;
/** The mission as it was recorded, or the id of a checkpoint that is queued or spooled. */
export type MissionCheckpoint =
  | (Omit<Camel<MissionCheckpointAnswer>, "status"> & { readonly outcome: "committed" })
  | QueuedOutcome
  | SpooledOutcome;

export class MissionHandle {
  readonly id: string;
  /** The fence under which the agent owns the task; undefined: it is not the coordinator. */
  readonly fence: number | undefined;
  readonly #parts: MissionParts;

  constructor(parts: MissionParts, id: string, fence: number | undefined) {
    this.#parts = parts;
    this.id = id;
    this.fence = fence;
  }

  /** Throws CONFLICT if the mission exists. */
  start(mission: MissionStart, options: Options = {}): Promise<MissionResult> {
    return this.#change("mission_start", toSnake(mission), options);
  }

  /** The end of a mission writes its final checkpoint and ends the task. Throws CONFLICT while sorties are open. */
  update(change: Body<"mission_update">, options: Options = {}): Promise<MissionResult> {
    return this.#change("mission_update", toSnake(change), options);
  }

  /** At most 100 at once. A sortie without an id gets `srt-` and its number. */
  addSorties(sorties: readonly NewSortie[], options: Options = {}): Promise<MissionResult> {
    return this.#change("sortie_add", { sorties: sorties.map(toSnake) }, options);
  }

  /** A completion that reaches a milestone writes a checkpoint, whose id the result has. */
  updateSortie(sortieId: string, change: SortieChange, options: Options = {}): Promise<MissionResult> {
    return this.#change("sortie_update", { ...toSnake(change), sortie_id: sortieId }, options);
  }

  /** Seed 002, `reportProgress`. */
  reportProgress(sortieId: string, progressNotes: string, options: Options = {}): Promise<MissionResult> {
    return this.updateSortie(sortieId, { progressNotes }, options);
  }

  checkpoint({
    note,
    ...options
  }: RecordOptions & { readonly note?: string } = {}): Promise<MissionCheckpoint> {
    return this.#checkpoint({ note }, options);
  }

  /**
   * Records the mission before the error is handled: an exception, or an error of an API with its `status` (US-302). It becomes a
   * blocker of the recovery context.
   */
  onError(error: unknown, options: RecordOptions = {}): Promise<MissionCheckpoint> {
    const { name, message } = error instanceof Error ? error : { name: "Error", message: String(error) };
    const { status } = (error ?? {}) as { readonly status?: unknown };
    const isStated = typeof status !== "number" || message.includes(String(status));
    const whole = isStated ? message : `status ${status}: ${message}`;
    const bounded = { name: name.slice(0, NAME_CHARS_MAX), message: whole.slice(0, MESSAGE_CHARS_MAX) };
    return this.#checkpoint({ error: bounded }, options);
  }

  /** Records the mission when the context of this agent is compacted, and makes it recoverable at once (US-304). */
  reportCompaction({
    note,
    ...options
  }: RecordOptions & { readonly note?: string } = {}): Promise<MissionCheckpoint> {
    return this.#checkpoint({ note, compaction: true }, options);
  }

  /**
   * Restores the sorties from a checkpoint; without one from the newest, and the progress of working specialists is kept.
   * May be repeated.
   */
  async resume({
    checkpointId,
    ...options
  }: Options & { readonly checkpointId?: string | undefined } = {}): Promise<Resumption> {
    const body = checkpointId === undefined ? {} : { checkpoint_id: normalizeCheckpointId(checkpointId) };
    const { delivery } = this.#parts;
    return resultOf(await delivery.deliverNow("mission_resume", this.id, body, this.#fenced(options)));
  }

  /** What {@link resume} would do now. */
  previewResume(
    query: { readonly checkpointId?: string | undefined } & CallOptions = {},
  ): Promise<ResumePreview> {
    return this.#parts.queries.send("resume_preview", { ...query, missionId: this.id });
  }

  /** In sentences for a model: of the mission, or of one specialist. null: the specialist has no sortie. */
  async recoveryContext(
    query: {
      readonly agentId?: string | undefined;
      readonly checkpointId?: string | undefined;
    } & CallOptions = {},
  ): Promise<RecoveryContext | null> {
    const named = { ...query, missionId: this.id };
    return (await this.#parts.queries.send("recovery_context", named)).recovery_context;
  }

  /**
   * The recovery context as a prompt of at most `budget`, by default 2,000 tokens. Text of agents in it is quoted data.
   * null: the specialist has no sortie.
   */
  async recoveryPrompt({
    budget,
    ...query
  }: {
    readonly agentId?: string | undefined;
    readonly checkpointId?: string | undefined;
    readonly budget?: PromptBudget | undefined;
  } & CallOptions = {}): Promise<RecoveryPrompt | null> {
    const context = await this.recoveryContext(query);
    const mission = await this.state(query);
    if (context === null || mission === null) return null;
    return recoveryPrompt({ context, progressPercent: mission.progress_percent, budget });
  }

  /** null: there is no such mission. */
  async state({ deadlineMs, signal }: CallOptions = {}): Promise<Mission | null> {
    const query = { missionId: this.id, deadlineMs, signal };
    return (await this.#parts.queries.find("mission", query))?.mission ?? null;
  }

  /** Ordered by their ids, in pages. */
  sorties(query: Omit<Camel<QueryInput<"sorties">>, "missionId"> & CallOptions = {}): Promise<SortiePage> {
    return this.#parts.queries.send("sorties", { ...query, missionId: this.id });
  }

  /**
   * Holds a file until the lock is released or disposed, and renews it meanwhile. `waitMs`: how long to wait while another agent holds
   * the file. Throws CONFLICT if it is still held then, which the mission records as an error (US-302).
   */
  lock(path: string, options: LockOptions = {}): Promise<FileLock> {
    return acquireFileLock(this.#parts, { mission: this.id, fence: this.fence }, path, options);
  }

  /** Also ends the wait of this agent for the file. `force`: that of another agent; for the coordinator and for people. */
  async releaseLock(
    path: string,
    { force = false, ...options }: Options & { readonly force?: boolean } = {},
  ): Promise<LockResult> {
    const { delivery } = this.#parts;
    return resultOf(
      await delivery.deliverNow("lock_release", this.id, { path, force }, this.#fenced(options)),
    );
  }

  async renewLock(
    path: string,
    { timeoutMs, ...options }: Options & { readonly timeoutMs?: number | undefined } = {},
  ): Promise<LockResult> {
    const { delivery } = this.#parts;
    const body = toSnake({ path, timeoutMs });
    return resultOf(await delivery.deliverNow("lock_renew", this.id, body, this.#fenced(options)));
  }

  /** Like {@link lock}, for a caller that renews and releases the lock itself. */
  acquireLock(path: string, options: LockOptions = {}): Promise<LockResult> {
    return holdFile(this.#parts, { mission: this.id, fence: this.fence }, path, options);
  }

  /** Those that are held now, ordered by their paths. */
  async locks(
    query: Omit<Camel<QueryInput<"locks">>, "missionId"> & CallOptions = {},
  ): Promise<readonly Lock[]> {
    return (await this.#parts.queries.send("locks", { ...query, missionId: this.id })).locks;
  }

  /**
   * Sends a message to agents of the mission, and to people. Each recipient has `timeoutMs`, an hour by default, to
   * acknowledge it; then the mission records a delivery failure (US-302). `unknown` of the result: recipients without a part
   * in the mission.
   */
  async send(
    { to, ...message }: Omit<Body<"message_send">, "to"> & { readonly to: string | readonly string[] },
    options: Options = {},
  ): Promise<MessageResult> {
    // A caller without types may leave it out, which the fleet refuses with the name of the field.
    const body = toSnake({ ...message, to: typeof to === "string" ? [to] : to });
    return resultOf(
      await this.#parts.delivery.deliverNow("message_send", this.id, body, this.#fenced(options)),
    );
  }

  /**
   * The messages to this agent, until `signal` is aborted. A message is acknowledged when the loop asks for the next one, so
   * one whose processing throws, is left with `break` or dies with the process comes again. Survives an absence of the fleet.
   * One loop at a time for each agent: two loops of one agent get the same messages.
   */
  messages(options: ReceiveOptions = {}): AsyncGenerator<MissionMessage, void, undefined> {
    return receiveMessages(this.#parts, this.id, options);
  }

  /** For a recipient, after it has processed the message. May be repeated. */
  async acknowledge(messageId: string, options: Options = {}): Promise<MessageResult> {
    const body = { message_id: messageId };
    return resultOf(
      await this.#parts.delivery.deliverNow("message_ack", this.id, body, this.#fenced(options)),
    );
  }

  /** For its sender, the coordinator and people. Throws CONFLICT for a delivered message. May be repeated. */
  async cancelMessage(messageId: string, options: Options = {}): Promise<MessageResult> {
    const body = { message_id: messageId };
    return resultOf(
      await this.#parts.delivery.deliverNow("message_cancel", this.id, body, this.#fenced(options)),
    );
  }

  /** The queued messages to this agent that it has not acknowledged, the oldest first, in pages. */
  mailbox(query: Omit<Camel<QueryInput<"mailbox">>, "missionId"> & CallOptions = {}): Promise<MailboxPage> {
    return this.#parts.queries.send("mailbox", { ...query, missionId: this.id });
  }

  /** The messages of the mission that this agent may see, the newest first, in pages. */
  messageList(
    query: Omit<Camel<QueryInput<"messages">>, "missionId"> & CallOptions = {},
  ): Promise<MessagePage> {
    return this.#parts.queries.send("messages", { ...query, missionId: this.id });
  }

  /** The events of the mission that this agent gets as messages. None: it gets no more. */
  async subscribe(events: readonly MailboxEvent[], options: Options = {}): Promise<MailboxSubscription> {
    const { delivery } = this.#parts;
    const body = { events: [...events] };
    return resultOf(await delivery.deliverNow("mailbox_subscribe", this.id, body, this.#fenced(options)));
  }

  async #change(
    op: Exclude<MissionOp, "mission_checkpoint" | "mission_resume" | LockOp | MessageOp>,
    body: object,
    options: Options,
  ): Promise<MissionResult> {
    return resultOf(await this.#parts.delivery.deliverNow(op, this.id, body, this.#fenced(options)));
  }

  async #checkpoint(body: object, options: RecordOptions): Promise<MissionCheckpoint> {
    const { delivery } = this.#parts;
    const answer = await delivery.deliver("mission_checkpoint", this.id, body, this.#fenced(options));
    if (answer.status !== "committed") return pendingOutcome(answer);
    return { ...resultOf(answer), outcome: answer.status };
  }

  #fenced(options: RecordOptions): RecordOptions {
    return options.fence !== undefined || this.fence === undefined
      ? options
      : { ...options, fence: this.fence };
  }
}

const NAME_CHARS_MAX = 64;
const MESSAGE_CHARS_MAX = 1_900;
