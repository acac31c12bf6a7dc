/** What can be asked about checkpoints, and with which options; a client offers all of it, a task handle what concerns its task. */
import type { Checkpoint, CheckpointInput, FinalStatus } from "../../protocol/checkpoint.ts";
import type { HandoffWish as ProtocolWish } from "../../protocol/handoff-record.ts";
import type { OfferData } from "../../protocol/offer.ts";
import type { CheckpointPage, LatestResult, QueryInput } from "../../protocol/queries.ts";
import type { Task } from "../../protocol/task.ts";
import type { Camel } from "../case-convert.ts";
import type { Fallback } from "../delivery/command-delivery.ts";
import type { AskOptions } from "../request/request.ts";
import type { HandoffChanged, HandoffOutcome, Outcome } from "./outcome.ts";

export interface CommandOptions extends AskOptions {
  /** Make it yourself to be able to ask again after a TIMEOUT. Default: a new UUIDv7. */
  readonly commandId?: string | undefined;
  /** The fence under which the caller owns the task. */
  readonly fence?: number | undefined;
  readonly expectedVersion?: number | undefined;
  /** What becomes of this command when no writer answers. Default: what `connect()` was told. */
  readonly fallback?: Fallback | undefined;
}

/** What whoever gets a task may promise. */
interface Promising {
  /** It says from now on that it lives: should it fall silent it loses the task, even if it was never heard. */
  readonly heartbeats?: boolean | undefined;
}

export interface TakeOptions extends AskOptions, Promising {
  readonly commandId?: string | undefined;
  /** Take the task only while it has this fence; 0: nobody has ever taken it. */
  readonly expectedFence?: number | undefined;
}

/** What whoever asks for a handoff may say about it; without it the policy decides who is next. */
export type HandoffWish = Camel<ProtocolWish>;

export interface AcknowledgeOptions extends AskOptions, Promising {
  readonly commandId?: string | undefined;
}

/** What an offer names. */
export type OfferReference = Pick<OfferData, "task_id" | "handoff_id" | "agent_type"> & {
  readonly checkpoint: Pick<OfferData["checkpoint"], "id">;
};

/** `taskId` spares the look-up of the checkpoint's task. */
export interface ChangeOptions extends CommandOptions {
  readonly taskId?: string | undefined;
}

/** `handoff`: of a checkpoint in phase `handoff`. */
export interface CreateOptions extends CommandOptions {
  readonly handoff?: HandoffWish | undefined;
}

export type InitiateOptions = ChangeOptions & HandoffWish;

export interface CancelHandoffOptions extends CommandOptions {
  /** Default: the task's open one. */
  readonly handoffId?: string | undefined;
  readonly reason?: string | undefined;
}

export type HandoffsOptions = Camel<QueryInput<"handoffs">>;

export interface CreateCheckpointParams extends CreateOptions {
  readonly taskId: string;
  readonly checkpoint: CheckpointInput;
}

export type SearchOptions = Camel<QueryInput<"search">>;
export type HistoryOptions = Omit<Camel<QueryInput<"history">>, "taskId">;
export type AgentRange = Omit<Camel<QueryInput<"by_agent">>, "agentId">;

export type FinalizeOptions = ChangeOptions & { readonly retentionPolicy?: string };

/** The operations that a task handle passes on. */
export interface TaskOperations {
  createCheckpoint(params: CreateCheckpointParams): Promise<Outcome>;
  updateCheckpoint(id: string, patch: Record<string, unknown>, options?: ChangeOptions): Promise<Outcome>;
  finalizeCheckpoint(id: string, status: FinalStatus, options?: FinalizeOptions): Promise<Outcome>;
  linkCheckpoints(parentId: string, childId: string, options?: ChangeOptions): Promise<Outcome>;
  initiateHandoff(checkpointId: string | null, options?: InitiateOptions): Promise<HandoffOutcome>;
  cancelHandoff(taskId: string, options?: CancelHandoffOptions): Promise<HandoffChanged>;
  releaseTask(taskId: string, options: CommandOptions & { fence: number }): Promise<Outcome["outcome"]>;
  getLatestCheckpoint(taskId: string, options?: AskOptions): Promise<Checkpoint | null>;
  latest(taskId: string, options?: AskOptions): Promise<LatestResult>;
  getCheckpointHistory(taskId: string, options?: HistoryOptions & AskOptions): Promise<CheckpointPage>;
  getTask(taskId: string, options?: AskOptions): Promise<Task | null>;
}
