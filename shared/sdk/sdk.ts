/** The public interface of the SDK, for authors of agents. */

/** A new id for a command that may be sent again: under the same id it has one effect. */
export { uuidv7 as newCommandId } from "uuidv7";
export { continuationPrompt } from "../prompts/continuation.ts";
export type { Prompt, PromptInput } from "../prompts/prompt.ts";
export { type RecoveryPrompt, recoveryPrompt } from "../prompts/recovery-prompt.ts";
export type { AcknowledgedAlert, AlertPage, AlertState } from "../protocol/alert-queries.ts";
export type { ReceivedAlert } from "../protocol/alerts.ts";
export type { Artifact, ArtifactReference } from "../protocol/artifacts.ts";
export type {
  Checkpoint,
  CheckpointInput,
  FinalStatus,
  Phase,
  TriggerReason,
} from "../protocol/checkpoint.ts";
export { FleetError } from "../protocol/errors.ts";
export { type DisplayedSignatures, shownBlocks } from "../protocol/esign.ts";
export type { FleetEvent } from "../protocol/events.ts";
export type { Handoff } from "../protocol/handoff-record.ts";
export type { Mission, RecoveryContext, Sortie } from "../protocol/mission.ts";
export type { Lock } from "../protocol/mission-locks.ts";
export type { MailboxEvent, MailboxPage, MessagePage, MissionMessage } from "../protocol/mission-messages.ts";
export type { OfferData } from "../protocol/offer.ts";
export type { Task } from "../protocol/task.ts";
export type { Workspace, WorkspaceDrift } from "../protocol/workspace.ts";
export type { AccessReport } from "./access-log/access-log-admin.ts";
export { runAgent } from "./agent/agent.ts";
export type { ItemWithoutFiles, OnMissingFiles } from "./agent/missing-files.ts";
export type { AgentOptions, AgentResult } from "./agent/options.ts";
export type { AgentRun } from "./agent/run.ts";
export { RunEnded } from "./agent/run-ended.ts";
export type { SideEffect } from "./agent/side-effects.ts";
export type { Usage } from "./agent/triggers/usage.ts";
export type { ArtifactOptions, ArtifactSource } from "./artifacts/artifacts.ts";
export {
  type CheckpointTool,
  type CheckpointToolOptions,
  type CheckpointToolResult,
  checkpointFunction,
  checkpointTool,
} from "./checkpoint-tool/checkpoint-tool.ts";
export { type LintFinding, lintCheckpoint } from "./checkpoint-tool/lint.ts";
export type { FleetAdmin, RecoveryResult } from "./client/admin.ts";
export { FleetClient } from "./client/client.ts";
export { type ConnectOptions, connect } from "./client/connect.ts";
export type {
  CheckpointOutcome,
  CommittedOutcome,
  HandoffOutcome,
  QueuedOutcome,
  SpooledOutcome,
  WrittenCheckpoint,
} from "./client/outcome.ts";
export { type AcceptedHandoff, TaskHandle } from "./client/task.ts";
export type { SignatureReport, TrailReport } from "./client/trail-verifier.ts";
export type { FleetWarning } from "./client/warnings.ts";
export type { Fallback } from "./delivery/command-delivery.ts";
export { type DisplayedCheckpoint, withSignatures } from "./esign/display.ts";
export {
  type CheckpointSignatures,
  type EsignAdmin,
  type ListEsignaturesOptions,
  nonceOfEnrolment,
  nonceOfStatement,
  type PasskeyAnswer,
} from "./esign/esign-admin.ts";
export type { HeartbeatSender, HeartbeatState } from "./heartbeat.ts";
export type { FileLock, LockOptions, LockResult } from "./mission/file-lock.ts";
export type {
  MailboxSubscription,
  MessageResult,
  MissionCheckpoint,
  MissionHandle,
  MissionResult,
  Resumption,
} from "./mission/mission.ts";
export type { AvailableRecovery, RecoveryCheck } from "./mission/mission-directory.ts";
export type { ReceiveOptions } from "./mission/received-messages.ts";
export type { AssignmentResult, AssignmentWork, SortieRecovery, Specialist } from "./mission/specialist.ts";
export type { ReceivedOffer } from "./offers.ts";
export { KnownKeys } from "./request/known-keys.ts";
export type { PendingCommands, SpoolCounts } from "./spool/spool.ts";
export { type Money, type Segment, type Spending, spendingBy, taskSegments } from "./task-cost.ts";
export { compareWorkspace } from "./workspace/comparison.ts";
export { takeWorkspace } from "./workspace/snapshot.ts";
