/** The options of the client's operations. Where they are those of a query, they are its parameters in camelCase. */
import type { CheckpointInput } from "../../protocol/checkpoint.ts";
import type { HandoffOptions } from "../../protocol/handoff-record.ts";
import type { OfferData } from "../../protocol/offer.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { Camel } from "../case-convert.ts";
import type { CommandOptions } from "../delivery/command-delivery.ts";
import type { CallOptions } from "../request/request.ts";

interface HeartbeatPromise {
  /** The agent promises heartbeats from now on: if it falls silent it loses the task, even if it never sent one. */
  readonly heartbeats?: boolean | undefined;
}

/**
 * `version`: an earlier one. `asStored`: the record alone, without the migration of an older schema, so that its hash can be recomputed. `signature`: with
 * the verified signature of its commit.
 */
export type GetOptions = CallOptions & Pick<Camel<QueryInput<"get">>, "version" | "asStored" | "signature">;

export interface TakeOptions extends CallOptions, HeartbeatPromise {
  readonly commandId?: string | undefined;
  /** Take the task only while it has this fence; 0: it was never taken. */
  readonly expectedFence?: number | undefined;
}

/** The choices of the caller of a handoff: next agent type, next phase, reason. The policy chooses the rest. */
export type HandoffDetails = Camel<HandoffOptions>;

export interface AcknowledgeOptions extends CallOptions, HeartbeatPromise {
  readonly commandId?: string | undefined;
  /**
   * The agent that becomes the owner. Default: this one. Orchestrators and runners may name an agent that they start, and no person. The
   * bus refuses it to the other roles.
   */
  readonly newAgentId?: string | undefined;
}

/** The members of an offer that its acknowledgement names. */
export type OfferReference = Pick<OfferData, "task_id" | "handoff_id" | "agent_type" | "digest"> & {
  readonly checkpoint: Pick<OfferData["checkpoint"], "id">;
};

export interface UpdateOptions extends CommandOptions {
  /** The outcome of a committed command has the checkpoint as it is stored. Default false. */
  readonly includeCheckpoint?: boolean | undefined;
}

export interface CreateOptions extends UpdateOptions {
  /** For a checkpoint in phase `handoff`. */
  readonly handoff?: HandoffDetails | undefined;
}

export interface CreateCheckpointParams extends CreateOptions {
  readonly taskId: string;
  readonly checkpoint: CheckpointInput;
}

export interface ChangeOptions extends CommandOptions {
  /** The checkpoint's task. It saves a query for it. */
  readonly taskId?: string | undefined;
}

export interface FinalizeOptions extends CommandOptions {
  readonly retentionPolicy?: string | undefined;
}

export type InitiateHandoffOptions = ChangeOptions & HandoffDetails;

export interface HandOffOptions extends CommandOptions, HandoffDetails {
  /** Default: the task's newest checkpoint. */
  readonly checkpointId?: string | undefined;
}

export interface CancelHandoffOptions extends CommandOptions {
  /** Default: the task's open handoff. */
  readonly handoffId?: string | undefined;
  readonly reason?: string | undefined;
}

export interface ForkOptions extends CallOptions {
  readonly commandId?: string | undefined;
  /** The checkpoint to fork. Default: the task's newest sound one. */
  readonly from?: string | undefined;
  /** The agent type of the first checkpoint. Default: that of the forked checkpoint. */
  readonly agentType?: string | undefined;
  /** Replaces the goal. */
  readonly goal?: string | undefined;
  /** Why the task is forked; stored as the details of the trigger. */
  readonly note?: string | undefined;
}

export type HandoffsOptions = Camel<QueryInput<"handoffs">>;
export type SearchOptions = Camel<QueryInput<"search">>;
export type HistoryOptions = Omit<Camel<QueryInput<"history">>, "taskId">;
export type AgentRange = Omit<Camel<QueryInput<"by_agent">>, "agentId">;
export type AuditOptions = Omit<Camel<QueryInput<"audit">>, "taskId">;
