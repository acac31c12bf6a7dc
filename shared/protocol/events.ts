/**
 * Events: facts already committed, as CloudEvents 1.0 in JSON. `type` and `data` are those of the source
 * documents (seed 000 §5.2), which is why `data` alone is camelCase. Delivered at least once, in order per
 * task; `id` makes duplicates harmless.
 */

import { z } from "zod";
import { invalid } from "./errors.ts";
import { ESIGN_MEANINGS } from "./esign.ts";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { HANDOFF_FAILURES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { MISSION_EVENT_DATA } from "./mission-events.ts";
import { FAILURE_SIGNALS } from "./recovery-states.ts";
import { REMOVAL_REASONS } from "./retention.ts";
import { SHRED_STATES } from "./shred.ts";
import { validate } from "./validation.ts";

const data = {
  /** `forkedFrom`: the checkpoint of another task whose state it has. */
  CHECKPOINT_CREATED: z.object({
    checkpointId: z.string(),
    taskId: z.string(),
    agentId: z.string(),
    forkedFrom: z.object({ taskId: z.string(), checkpointId: z.string() }).exactOptional(),
  }),
  CHECKPOINT_UPDATED: z.object({ checkpointId: z.string(), fields: z.array(z.string()) }),
  CHECKPOINT_FINALIZED: z.object({ checkpointId: z.string(), status: z.string() }),
  CHECKPOINT_CORRUPTED: z.object({ checkpointId: z.string(), error: z.string() }),
  /** The store had lost the version, or held it corrupt (`error`), and has it again from the file mirror. */
  CHECKPOINT_RESTORED: z.object({ checkpointId: z.string(), version: z.int(), error: z.string() }),
  /** Retention or an operator removed the checkpoint. A tombstone and the audit entries are left. */
  CHECKPOINT_REMOVED: z.object({
    checkpointId: z.string(),
    taskId: z.string(),
    reason: z.enum(REMOVAL_REASONS),
  }),
  /** A person has signed the version electronically. */
  CHECKPOINT_SIGNED: z.object({
    checkpointId: z.string(),
    taskId: z.string(),
    version: z.int(),
    meaning: z.enum(ESIGN_MEANINGS),
    printedName: z.string(),
  }),
  /** An operator changed the retention of the task. While it has a hold, nothing of it is removed. */
  TASK_RETENTION_CHANGED: z.object({
    taskId: z.string(),
    retentionPolicy: z.string().nullable(),
    holds: z.array(z.string()),
  }),
  /** Two persons have all content of the task removed. From `approved` on it accepts no command but a hold. */
  TASK_SHRED_CHANGED: z.object({
    taskId: z.string(),
    state: z.enum([...SHRED_STATES, "cancelled"]),
  }),
  /** An operator imports a task of another fleet or tenant. Until TASK_IMPORTED it accepts no other command. */
  TASK_IMPORT_BEGUN: z.object({
    taskId: z.string(),
    fromFleet: z.string().nullable(),
    fromTenant: z.string(),
    versions: z.int(),
    fence: z.int(),
  }),
  CHECKPOINT_IMPORTED: z.object({
    checkpointId: z.string(),
    taskId: z.string(),
    agentId: z.string(),
    version: z.int(),
    /** The hash of the version in its fleet of origin. */
    originHash: z.string(),
  }),
  /** Retention had removed the checkpoint in the fleet of origin. Its tombstone has its position here. */
  CHECKPOINT_REMOVAL_IMPORTED: z.object({
    checkpointId: z.string(),
    taskId: z.string(),
    version: z.int(),
    reason: z.enum(REMOVAL_REASONS),
  }),
  /** The records of its mission: sorties, locks, messages. The locks are released at once. */
  MISSION_RECORDS_IMPORTED: z.object({ taskId: z.string(), records: z.int() }),
  TASK_IMPORTED: z.object({ taskId: z.string(), state: z.string(), versions: z.int() }),
  TASK_TAKEN: z.object({
    taskId: z.string(),
    agentId: z.string(),
    fence: z.int(),
    previousOwner: z.string().nullable(),
  }),
  TASK_RELEASED: z.object({ taskId: z.string(), agentId: z.string(), fence: z.int() }),
  /** A queued command was refused for good: `fenced`, or `dropped` by an operator. */
  COMMAND_REFUSED: z.object({
    commandId: z.string().nullable(),
    agentId: z.string(),
    reason: z.enum(["fenced", "dropped"]),
  }),
  /** Of the source: the task `forkTaskId` begins with the state of `checkpointId`. */
  TASK_FORKED: z.object({
    taskId: z.string(),
    checkpointId: z.string(),
    agentId: z.string(),
    forkTaskId: z.string(),
    forkCheckpointId: z.string(),
  }),
  /** `toAgent` is an agent type; null: the coordinator chooses one. */
  AGENT_HANDOFF: z.object({
    fromCheckpoint: z.string(),
    toAgent: z.string().nullable(),
    handoffId: z.string(),
    taskId: z.string(),
    fromAgent: z.string(),
    reason: z.string().nullable(),
  }),
  HANDOFF_VALIDATED: z.object({ handoffId: z.string(), checkpointId: z.string(), toAgent: z.string() }),
  HANDOFF_OFFERED: z.object({
    handoffId: z.string(),
    toAgent: z.string(),
    attempt: z.int(),
    deadline: z.string(),
  }),
  HANDOFF_ACKNOWLEDGED: z.object({
    handoffId: z.string(),
    fromCheckpoint: z.string(),
    agentId: z.string(),
    fence: z.int(),
    previousOwner: z.string().nullable(),
  }),
  HANDOFF_CONFIRMED: z.object({ handoffId: z.string(), checkpointId: z.string(), agentId: z.string() }),
  HANDOFF_FAILED: z.object({
    handoffId: z.string(),
    state: z.enum(["rejected", "escalated", "cancelled", "lapsed"]),
    reason: z.enum(HANDOFF_FAILURES),
  }),
  TASK_BLOCKED: z.object({
    taskId: z.string(),
    reason: z.string(),
    handoffId: z.string().exactOptional(),
    /**
     * The task was blocked for the same reason before, without progress since: the audit entry that raised
     * the alert.
     */
    alertedSeq: z.int().exactOptional(),
  }),
  /**
   * The owner lost the task, and the fence was raised. `dueAt` is the time of its recovery. null: an operator
   * decides.
   */
  AGENT_FAILED: z.object({
    taskId: z.string(),
    agentId: z.string().nullable(),
    class: z.enum(FAILURE_CLASSES),
    signal: z.enum(FAILURE_SIGNALS),
    fence: z.int(),
    dueAt: z.string().nullable(),
  }),
  /** An operator requested another attempt, or the policy probes a blocked task. The owner lost the task. */
  RECOVERY_REQUESTED: z.object({
    taskId: z.string(),
    previousOwner: z.string().nullable(),
    fence: z.int(),
    reason: z.string().nullable(),
  }),
  /** `attempt` is the number of the attempt since the budget was last full. */
  RECOVERY_INITIATED: z.object({
    checkpointId: z.string(),
    reason: z.string(),
    taskId: z.string(),
    handoffId: z.string(),
    attempt: z.int(),
  }),
  /**
   * The next agent has written its first checkpoint, `firstCheckpointId`, which continues from
   * `checkpointId`.
   */
  RECOVERY_COMPLETED: z.object({
    checkpointId: z.string(),
    newAgentId: z.string(),
    taskId: z.string(),
    firstCheckpointId: z.string(),
    attempt: z.int(),
  }),
  /**
   * The recovery is over, or starts again: the task made progress, or another transition replaced the
   * recovery.
   */
  RECOVERY_SETTLED: z.object({
    taskId: z.string(),
    reason: z.enum(["progress", "superseded"]),
  }),
  ...MISSION_EVENT_DATA,
} as const;

export const EVENT_DATA = data;
export type EventType = keyof typeof data;
export type EventData<T extends EventType> = z.infer<(typeof data)[T]>;

export const EVENT_TYPES = Object.keys(data) as EventType[];

export const eventSchema = z.looseObject({
  specversion: z.literal("1.0"),
  /** `<tenant>/<task>/<audit entry>`: the same for every copy. */
  id: z.string(),
  source: z.string(),
  type: z.string(),
  /** The id of the task. */
  subject: z.string(),
  time: z.string(),
  datacontenttype: z.literal("application/json"),
  tenant: z.string(),
  /** The audit entry that records the transition; grows by one per task. */
  sequence: z.int(),
  /** The hash of that entry. Absent in events of earlier versions. */
  audithash: z.string().optional(),
  traceparent: z.string().optional(),
  data: z.unknown(),
});

export interface FleetEvent<T extends EventType = EventType> {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: T;
  readonly subject: string;
  readonly time: string;
  readonly datacontenttype: "application/json";
  readonly tenant: string;
  readonly sequence: number;
  readonly audithash?: string;
  readonly traceparent?: string;
  readonly data: EventData<T>;
}

const addressedSchema = eventSchema.extend({ tenant: tokenSchema, subject: tokenSchema });

/**
 * An event of one of these types, of any origin. Throws INVALID for a value that the fleet cannot have
 * written.
 */
export function readEvent<T extends EventType>(value: unknown, types: readonly T[]): FleetEvent<T> {
  const event = validate(addressedSchema, value);
  const type = types.find((one) => one === event.type);
  if (type === undefined) throw invalid("type", `one of ${types.join(", ")}`, event.type);
  return { ...event, type, data: validate(data[type], event.data) } as FleetEvent<T>;
}
