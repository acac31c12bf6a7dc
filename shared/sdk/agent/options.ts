/** The options of `runAgent`, and its result. */
import type { OfferData } from "../../protocol/offer.ts";
import type { TriggerThresholds } from "../../protocol/triggers.ts";
import type { FleetClient } from "../client/client.ts";
import type { ConnectOptions } from "../client/connect.ts";
import type { CheckpointRules } from "./checkpoints/checkpoint-policy.ts";
import type { Classify } from "./failure.ts";
import type { OnMissingFiles } from "./missing-files.ts";
import type { AgentRun } from "./run.ts";
import type { InitialWork } from "./state.ts";

export interface AgentOptions {
  /** The agent type: of the offers that the agent takes, and in its checkpoints. A runner that starts the agent overrides it. */
  readonly type: string;
  /**
   * The work. If it resolves with no item pending, the task is complete; with items pending, the task is released. If it throws, the
   * error is recorded, reported and rethrown. Let errors of the run's methods pass: the run has ended then.
   */
  readonly work: (run: AgentRun) => Promise<void>;
  /** Take this task, even from another owner, instead of the one that a runner or an offer assigns. */
  readonly task?: string;
  /** The fence of `task`, if it was already taken or acknowledged for this agent, under its agent id. */
  readonly fence?: number;
  /** Take `task` also if it has ended: it is opened again. Default false. */
  readonly reopen?: boolean;
  /** The state of a task without checkpoints. */
  readonly begin?: InitialWork;
  /** Decides whether to take an offer. Default: every offer. */
  readonly onOffer?: (offer: OfferData) => boolean | Promise<boolean>;
  /** When to write checkpoints. Default: every 3 items, every 10 minutes. */
  readonly checkpoints?: CheckpointRules;
  /** When to hand off. Default: the fleet's policy, as the writer applies it. */
  readonly triggers?: Partial<TriggerThresholds>;
  /** Stops the agent: a last checkpoint is written, and its task is released. */
  readonly signal?: AbortSignal;
  /** Release the task of a stopped agent, or hand it off. Default `release`. */
  readonly onStop?: "release" | "hand_off";
  /** The failure class of an error that the work throws. Default: from the error itself, else `crash`. */
  readonly classify?: Classify;
  readonly sessionId?: string;
  /** Milliseconds between heartbeats: at most a third of the policy's `silence_ms`. Default 2,000. */
  readonly heartbeatMs?: number;
  /** The folder of the work: recorded in every checkpoint, and compared with the checkpoint from which a run continues. */
  readonly workspace?: string;
  /** What happens if files of completed items are not in the workspace of a resumed task. Default `report`. */
  readonly onMissingFiles?: OnMissingFiles;
  /** Receives the line that says from which phase the task is resumed. Default: standard error. */
  readonly log?: (line: string) => void;
  /** The client to use, which stays open. Default: a new one, made by `connect`. */
  readonly fleet?: FleetClient;
  readonly connect?: ConnectOptions;
}

export interface AgentResult {
  /**
   * `fenced`: the agent's ownership was revoked or passed to another agent. `stopped`: by the signal, or because the work returned with
   * items pending. `already_ended`: the task had ended before the run, which has changed nothing.
   */
  readonly outcome: "completed" | "handed_off" | "fenced" | "stopped" | "already_ended";
  /** null: stopped before it had a task. */
  readonly taskId: string | null;
  readonly checkpointId: string | null;
  /** The handoff of a task that was handed off, else null. */
  readonly handoffId: string | null;
  /** The checkpoint from which the task was resumed, and its author; null: the task began with this run. */
  readonly resumedFrom: { readonly checkpointId: string; readonly agentId: string } | null;
}
