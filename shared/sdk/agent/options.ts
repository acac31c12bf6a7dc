/** What an agent is started with, and how its run ends. */
import type { OfferData } from "../../protocol/offer.ts";
import type { TriggerThresholds } from "../../protocol/triggers.ts";
import type { FleetClient } from "../client/client.ts";
import type { ConnectOptions } from "../client/connect.ts";
import type { CheckpointRules } from "./checkpoint-policy.ts";
import type { Classify } from "./failure.ts";
import type { AgentRun } from "./run.ts";
import type { Beginning } from "./state.ts";

export interface AgentOptions {
  /** The agent type: whose offers it takes, and as what it writes. A runner that starts the agent says it itself. */
  readonly type: string;
  /**
   * The work. When it resolves with nothing pending, the task is complete; with something pending, the task is given back. When it
   * throws, that is written down and reported, and thrown on. Let pass what the run's methods throw: the run is over then.
   */
  readonly work: (run: AgentRun) => Promise<void>;
  /** Start on this task, whoever has it, instead of that of the runner that started the process, or of an offer. */
  readonly task?: string;
  /** The fence of `task`, where it was taken or acknowledged for this agent already, under its agent id. */
  readonly fence?: number;
  /** What a task that has no checkpoint yet begins with. */
  readonly begin?: Beginning;
  /** Whether to take an offer. Default: every one. */
  readonly onOffer?: (offer: OfferData) => boolean | Promise<boolean>;
  /** When to write checkpoints. Default: every 5 items, every 10 minutes. */
  readonly checkpoints?: CheckpointRules;
  /** When to hand off. Default: what the fleet's policy says, as the writer answers it. */
  readonly triggers?: Partial<TriggerThresholds>;
  /** Ends the agent: what it knows is written down, and its task given back. */
  readonly signal?: AbortSignal;
  /** What becomes of the task when the agent is ended so: given back, or offered to another agent. Default `release`. */
  readonly onStop?: "release" | "hand_off";
  /** The class of failure under which work that throws is reported. Default: what the error says itself, else `crash`. */
  readonly classify?: Classify;
  readonly sessionId?: string;
  /** How often it says that it lives: at least three times in the policy's `silence_ms`. Default 2,000. */
  readonly heartbeatMs?: number;
  /** The folder that it works in: recorded in every checkpoint, and compared with what the checkpoint says when it continues. */
  readonly workspace?: string;
  /** A client to use, which stays open; else one is made, as `connect` says. */
  readonly fleet?: FleetClient;
  readonly connect?: ConnectOptions;
}

export interface AgentResult {
  /** `fenced`: another agent has taken the task over. `stopped`: by the signal, or because the work returned with items pending. */
  readonly outcome: "completed" | "handed_off" | "fenced" | "stopped";
  /** null: stopped before there was a task. */
  readonly taskId: string | null;
  readonly checkpointId: string | null;
  /** Of a task that was handed off. */
  readonly handoffId: string | null;
}
