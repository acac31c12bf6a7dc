/** What `decide` is asked about: commands of clients, observations of services. */
import type { Handoff, HandoffEnding, HandoffOptions } from "../protocol/handoff-record.ts";
import type { RecoveryChoice, RecoveryFailure } from "../protocol/recovery-record.ts";
import type { PointFailure } from "../protocol/recovery-states.ts";
import type { ChangedCheckpoint, CreatedCheckpoint } from "./checkpoints.ts";
import type { SignedInput } from "./esign/sign.ts";
import type { HandoffRequest, Offering } from "./handoff.ts";
import type {
  ImportBegin,
  ImportEnd,
  ImportedRecords,
  ImportedRemoval,
  ImportedVersion,
} from "./import/import.ts";
import type { Take } from "./ownership.ts";
import type { RecoveryPoint } from "./recovery.ts";
import type { HoldInput } from "./retention/holds.ts";
import type { RemoveInput, RetainInput } from "./retention/rules.ts";
import type { ShredApproval, ShredRequest } from "./retention/shred.ts";

/** A command of an agent, an orchestrator or an operator. */
export type CommandInput =
  | ({ readonly type: "create" } & CreatedCheckpoint)
  | ({ readonly type: "change" } & ChangedCheckpoint)
  | ({ readonly type: "take" } & Take)
  | { readonly type: "release" }
  | {
      readonly type: "handoff";
      readonly request: Pick<HandoffRequest, "id" | "checkpoint" | "hash"> & {
        readonly options: HandoffOptions;
      };
    }
  | {
      readonly type: "acknowledge";
      readonly named: Handoff;
      readonly agentType: string;
      readonly checkpointId: string;
      /** The digest of the offer that the agent received. */
      readonly digest: string;
    }
  /** `named` null: the open handoff. */
  | { readonly type: "cancel_handoff"; readonly named: Handoff | null; readonly reason: string | null }
  | ({ readonly type: "recover" } & RecoverInput)
  | ({ readonly type: "remove" } & RemoveInput)
  | ({ readonly type: "retain" } & RetainInput)
  | ({ readonly type: "hold" } & HoldInput)
  | ({ readonly type: "shred_request" } & ShredRequest)
  | ({ readonly type: "shred_approve" } & ShredApproval)
  | { readonly type: "shred_cancel"; readonly requestSeq: number }
  | ({ readonly type: "signature_add" } & SignedInput)
  | ({ readonly type: "import_begin" } & ImportBegin)
  | ({ readonly type: "import_version" } & ImportedVersion)
  | ({ readonly type: "import_removed" } & ImportedRemoval)
  | ({ readonly type: "import_records" } & ImportedRecords)
  | ({ readonly type: "import_end" } & ImportEnd);

export interface RecoverInput {
  /** Recorded with the handoff that the command cancels. */
  readonly commandId: string | null;
  readonly choice: RecoveryChoice;
  readonly reset: boolean;
  readonly force: boolean;
  /** Until when the owner counts as alive, in milliseconds since the epoch; 0: no owner, or not known. */
  readonly aliveUntilMs: number;
}

/** An observation of a service. */
export type ObservationInput =
  | ({ readonly type: "agent_failed" } & FailureSighting)
  | {
      readonly type: "attempt_due";
      readonly dueAt: string;
      readonly handoffId: string;
      readonly point: RecoveryPoint;
    }
  | {
      readonly type: "no_recovery_point";
      readonly dueAt: string;
      readonly reason: PointFailure;
      readonly details: string | null;
    }
  | { readonly type: "probe_due"; readonly dueAt: string }
  | { readonly type: "offer_ready"; readonly toAgentType: string | undefined; readonly offering: Offering }
  | { readonly type: "handoff_invalid"; readonly failure: HandoffEnding }
  /** `attempt`: the offer that no agent accepted; 0: the handoff cannot be offered. */
  | {
      readonly type: "not_accepted";
      readonly attempt: number;
      readonly toAgentType: string | undefined;
      readonly failure: HandoffEnding;
    }
  | { readonly type: "validated"; readonly toAgentType: string }
  | { readonly type: "first_checkpoint_overdue" };

export interface FailureSighting {
  readonly failure: Pick<
    RecoveryFailure,
    "class" | "signal" | "agent_id" | "agent_type" | "fence" | "details" | "resets_at" | "last_sign_at"
  >;
  /** Until when the agent counts as alive; asked for silence only. */
  readonly aliveUntilMs: number;
  /** Something was written under the task's fence; asked for a lapsed handoff only. */
  readonly hasWritten: boolean;
}

export type Input = CommandInput | ObservationInput;
