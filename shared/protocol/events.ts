/**
 * Events: facts already committed, as CloudEvents 1.0 in JSON. `type` and `data` are those of the source documents (seed 000
 * §5.2), which is why `data` alone is camelCase. Delivered at least once, in order per task; `id` makes duplicates harmless.
 */
import { z } from "zod";
import { invalid } from "./errors.ts";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { HANDOFF_FAILURES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { FAILURE_SIGNALS } from "./recovery-states.ts";
import { validate } from "./validation.ts";

const data = {
  CHECKPOINT_CREATED: z.object({ checkpointId: z.string(), taskId: z.string(), agentId: z.string() }),
  CHECKPOINT_UPDATED: z.object({ checkpointId: z.string(), fields: z.array(z.string()) }),
  CHECKPOINT_FINALIZED: z.object({ checkpointId: z.string(), status: z.string() }),
  CHECKPOINT_CORRUPTED: z.object({ checkpointId: z.string(), error: z.string() }),
  TASK_TAKEN: z.object({
    taskId: z.string(),
    agentId: z.string(),
    fence: z.int(),
    previousOwner: z.string().nullable(),
  }),
  TASK_RELEASED: z.object({ taskId: z.string(), agentId: z.string(), fence: z.int() }),
  /** A queued command was refused for good: `fenced`, or `dropped` by a person. */
  COMMAND_REFUSED: z.object({
    commandId: z.string().nullable(),
    agentId: z.string(),
    reason: z.enum(["fenced", "dropped"]),
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
    /** It was blocked for this before, and nothing new got done since: the audit entry of which people were alerted then. */
    alertedSeq: z.int().exactOptional(),
  }),
  /** Whoever owned the task has lost it, and its fence was raised; `dueAt`: when it is recovered, null: a person decides. */
  AGENT_FAILED: z.object({
    taskId: z.string(),
    agentId: z.string().nullable(),
    class: z.enum(FAILURE_CLASSES),
    signal: z.enum(FAILURE_SIGNALS),
    fence: z.int(),
    dueAt: z.string().nullable(),
  }),
  /** Another attempt is wanted: by a person, or by the policy after a while. Whoever owned the task has lost it. */
  RECOVERY_REQUESTED: z.object({
    taskId: z.string(),
    previousOwner: z.string().nullable(),
    fence: z.int(),
    reason: z.string().nullable(),
  }),
  /** `attempt` counts since the budget was whole. */
  RECOVERY_INITIATED: z.object({
    checkpointId: z.string(),
    reason: z.string(),
    taskId: z.string(),
    handoffId: z.string(),
    attempt: z.int(),
  }),
  /** The next agent has written: `firstCheckpointId` goes on from `checkpointId`. */
  RECOVERY_COMPLETED: z.object({
    checkpointId: z.string(),
    newAgentId: z.string(),
    taskId: z.string(),
    firstCheckpointId: z.string(),
    attempt: z.int(),
  }),
  /** It is over or begins anew: something new got done, a person or the policy wants another attempt, the task went another way. */
  RECOVERY_SETTLED: z.object({
    taskId: z.string(),
    reason: z.enum(["progress", "superseded"]),
  }),
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
  /** The task. */
  subject: z.string(),
  time: z.string(),
  datacontenttype: z.literal("application/json"),
  tenant: z.string(),
  /** The audit entry that records the transition; grows by one per task. */
  sequence: z.int(),
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
  readonly traceparent?: string;
  readonly data: EventData<T>;
}

const addressedSchema = eventSchema.extend({ tenant: tokenSchema, subject: tokenSchema });

/** What came as an event of one of these types, from whomever. Throws INVALID for what the fleet cannot have written. */
export function readEvent<T extends EventType>(value: unknown, types: readonly T[]): FleetEvent<T> {
  const event = validate(addressedSchema, value);
  const type = types.find((one) => one === event.type);
  if (type === undefined) throw invalid("type", `one of ${types.join(", ")}`, event.type);
  return { ...event, type, data: validate(data[type], event.data) } as FleetEvent<T>;
}
