/**
 * The checkpoint: an explicit, structured snapshot of finished work, decisions and remaining work.
 *
 * This is the only definition: types, JSON Schema and the API documents derive from it. Data is snake_case on
 * the wire and on disk. Unknown fields survive a round trip, so that a newer agent and an older server can
 * work together.
 * Sources: seed 000 §2.1 (FR-001), seed 002 (fleet), seed 003 (steps, decisions, partial work), seed 004
 * (resume pointer).
 */
import { z } from "zod";
import { artifactReferenceSchema } from "./artifacts.ts";
import { checkpointIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import {
  lockSnapshotSchema,
  messageSnapshotSchema,
  missionSnapshotSchema,
  recoveryContextSchema,
  sortieSnapshotSchema,
} from "./mission.ts";
import { retentionSchema } from "./retention.ts";
import { checkpointSignatureSchema } from "./signing-keys.ts";

export const SCHEMA_VERSION = "1.1";
export const SCHEMA_MAJOR = 1;

export const BUILTIN_AGENT_TYPES = ["architecture", "implementation", "qa", "documentation"] as const;
export const PHASES = ["planning", "implementing", "testing", "reviewing", "complete", "handoff"] as const;
export const STATUSES = ["draft", "finalized"] as const;
/** The outcomes that a caller of `finalize` can state. */
export const FINAL_STATUSES = ["succeeded", "failed", "cancelled", "handed_off"] as const;
/** `superseded`: the fleet finalized a draft that a newer checkpoint of its task followed. */
export const STORED_FINAL_STATUSES = [...FINAL_STATUSES, "superseded"] as const;
export const TRIGGER_REASONS = [
  "progress",
  "periodic",
  "phase_transition",
  "task_complete",
  "before_long_operation",
  "priority_message",
  "context_overflow",
  "compaction",
  "error",
  "reassignment",
  "restart",
  "turn_end",
  "handoff",
  "manual",
] as const;

/** Work that leaves no file: an API call, a deployment, a message. `claimed`: it may have happened. */
export const SIDE_EFFECT_STATES = ["claimed", "completed"] as const;

/** The name of a reason in seed 003. */
const REASON_ALIASES = { failure: "error" } as const;

/** The names of two phases in seed 003. */
const PHASE_ALIASES = { implementation: "implementing", verification: "testing" } as const;

/**
 * A section: unknown members are kept. Its members are listed by name, because a validated value has them in
 * this order and its canonical bytes then need no sorting.
 */
function section<T extends z.ZodRawShape>(shape: T) {
  return z.looseObject(Object.fromEntries(Object.entries(shape).sort(([a], [b]) => (a < b ? -1 : 1))) as T);
}

const text = z.string();
const texts = z.array(z.string()).max(LIMITS.array_items_max);
const count = z.int().min(0);
const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

export const phaseSchema = z
  .enum([...PHASES, "implementation", "verification"], { error: `one of ${PHASES.join(", ")}` })
  .transform((phase) =>
    phase === "implementation" || phase === "verification" ? PHASE_ALIASES[phase] : phase,
  );

const itemObject = section({
  id: text.optional(),
  title: z.string().min(1, "a title of at least one character"),
  files_created: texts.optional(),
  files_modified: texts.optional(),
  at: time.optional(),
  notes: text.optional(),
});
const bareItem = z.string().min(1, "a title of at least one character");

/**
 * A work item; a bare string is its title. The object comes first here and below, because a branch that fails
 * costs as much as one that fits.
 */
export const itemSchema = z.union([itemObject, bareItem.transform((title) => ({ title }))], {
  error: "a title, or an item {id?, title, files_created?, files_modified?, at?, notes?}",
});

const blockedItemSchema = z.union(
  [section({ ...itemObject.shape, blocker: text.optional() }), bareItem.transform((title) => ({ title }))],
  { error: "a title, or an item with its blocker: {id?, title, blocker?, …}" },
);

const decisionSchema = z.union(
  [
    section({ decision: z.string().min(1), rationale: text.optional(), at: time.optional() }),
    z
      .string()
      .min(1)
      .transform((decision) => ({ decision })),
  ],
  { error: "a decision as text, or {decision, rationale?, at?}" },
);

const items = z.array(itemSchema).max(LIMITS.array_items_max);

export const triggerSchema = section({
  reason: z
    .enum([...TRIGGER_REASONS, "failure"], { error: `one of ${TRIGGER_REASONS.join(", ")}` })
    .transform((reason) => (reason === "failure" ? REASON_ALIASES[reason] : reason)),
  details: text.optional(),
});

/** A handoff trigger that a checkpoint fired, with the value and the threshold at that time. */
export const firedTriggerSchema = section({
  reason: tokenSchema,
  value: z.number().optional(),
  threshold: z.number().optional(),
  /** The value after the next step, if that value is over the threshold and the present one is not. */
  expected: z.number().optional(),
});

/**
 * An entry of the ledger of side effects. Claimed before the effect and completed after it, so that the next
 * agent knows what may have happened and verifies it before it repeats it (seed 003, open question 5).
 */
const sideEffectSchema = section({
  /** Unique in the task, and the same in every attempt, such as the name of the item. */
  id: z.string().min(1).max(LIMITS.id_chars_max),
  description: z.string().min(1, "what happens, such as: deploy to staging"),
  state: z.enum(SIDE_EFFECT_STATES, { error: `one of ${SIDE_EFFECT_STATES.join(", ")}` }),
  agent_id: principalSchema.optional(),
  claimed_at: time.optional(),
  completed_at: time.optional(),
  /** What the effect returned, such as the number of an invoice. */
  result: text.optional(),
});

export const executionStateSchema = section({
  phase: phaseSchema,
  goal: text.optional(),
  completed_items: items.default([]),
  pending_items: items.default([]),
  blocked_items: z.array(blockedItemSchema).max(LIMITS.array_items_max).default([]),
  current_focus: text.optional(),
  current_step: section({
    description: text,
    started_at: time.optional(),
    partial_work: text.optional(),
  }).optional(),
  resume_pointer: section({
    next_action: text,
    current_context: text.optional(),
    phase: text.optional(),
  }).optional(),
  progress_percent: z.number().min(0).max(100).optional(),
  side_effects: z.array(sideEffectSchema).max(LIMITS.array_items_max).optional(),
});

export const contextSummarySchema = section({
  key_decisions: z.array(decisionSchema).max(LIMITS.array_items_max).default([]),
  assumptions: texts.default([]),
  constraints: texts.default([]),
  external_dependencies: texts.default([]),
});

export const metricsSchema = section({
  /** The tokens that the model has processed for this iteration, as a running total. */
  tokens_consumed: count.default(0),
  /** The parts of `tokens_consumed` that the vendor of the model reports. Cached: read from the vendor's cache. */
  input_tokens: count.optional(),
  output_tokens: count.optional(),
  cached_tokens: count.optional(),
  /** The tokens in the context now. */
  context_tokens: count.optional(),
  /** The tokens that the context can hold. */
  context_limit: count.optional(),
  /** The largest recent growth of the context in one step of the work, in tokens. */
  context_step_tokens: count.optional(),
  /** The used fraction of the context, from an agent that does not know `context_tokens` and `context_limit`. */
  context_utilization: z.number().min(0).max(1, "a fraction from 0 to 1").optional(),
  tools_invoked: count.default(0),
  files_modified: texts.default([]),
  tests_status: section({
    passed: count.default(0),
    failed: count.default(0),
    skipped: count.default(0),
    coverage_percent: z.number().min(0).max(100).optional(),
  }).optional(),
  /** The model that works now, by its vendor's name. */
  model: text.min(1, "at least one character").optional(),
  /** The money that this iteration has cost, as a running total. Without a currency: US dollars. */
  cost: section({
    amount: z.number().min(0).optional(),
    currency: z
      .string()
      .regex(/^[A-Z]{3}$/, "a currency of ISO 4217, such as USD")
      .optional(),
  }).optional(),
  /** The agent's own count of failures since its start: of tools, of requests, of its own attempts. */
  error_count: count.optional(),
  /** Present while the vendor of the model refuses requests. */
  rate_limit: section({ resets_at: time.optional(), details: text.optional() }).optional(),
});

export const workspaceSchema = section({
  repo: text.optional(),
  branch: text.optional(),
  head: text.optional(),
  dirty: texts.optional(),
  files: z
    .array(section({ path: text, sha256: text.optional(), mtime: time.optional() }))
    .max(LIMITS.array_items_max)
    .optional(),
});

export const recoverySectionSchema = section({
  last_successful_state: checkpointIdSchema.optional(),
  rollback_instructions: text.optional(),
  /** How to continue, as the agent that handed the task off wrote it. */
  continuation_prompt: text.optional(),
  /** `generated`: the agent wrote none, so its SDK summarized the checkpoint. */
  continuation_prompt_source: z.literal("generated").optional(),
  /** The agents that worked on the task before this one, the first of them first. */
  previous_agents: z.array(principalSchema).max(LIMITS.parent_count_max).optional(),
  /** The checkpoint from which this agent resumed the task, and its author. */
  resumed_from: section({ checkpoint_id: checkpointIdSchema, agent_id: principalSchema }).optional(),
  workspace: workspaceSchema.optional(),
});

const verificationSchema = section({
  criteria: z.array(z.unknown()).max(LIMITS.array_items_max).default([]),
  results: z.array(z.unknown()).max(LIMITS.array_items_max).default([]),
});

/**
 * The mission snapshot of seed 002. An orchestrator may write a part of it by hand; the fleet writes it whole, and
 * a mission is resumed from a whole one only ({@link missionSnapshotSchema}).
 */
const fleetSchema = section({
  mission_id: tokenSchema,
  progress_percent: missionSnapshotSchema.shape.progress_percent.optional(),
  sorties: z.array(section({ ...sortieSnapshotSchema.partial().shape, id: text })).default([]),
  active_locks: z.array(section({ ...lockSnapshotSchema.partial().shape, id: text })).default([]),
  pending_messages: z.array(section({ ...messageSnapshotSchema.partial().shape, id: text })).default([]),
  recovery_context: section(recoveryContextSchema.partial().shape).optional(),
});

const labelsSchema = z
  .record(z.string().min(1).max(LIMITS.id_chars_max), z.string().max(256))
  .refine((labels) => Object.keys(labels).length <= LIMITS.label_count_max, "at most 64 labels");

const schemaVersion = z.string().regex(/^\d+\.\d+$/, 'a version such as "1.0"');
const parentIds = z.array(checkpointIdSchema).max(LIMITS.parent_count_max);

const sections = {
  /** Files that the checkpoint needs and that are too large for it. Each must be stored when it is written. */
  artifacts: z.array(artifactReferenceSchema).max(LIMITS.artifact_count_max).optional(),
  execution_state: executionStateSchema,
  context_summary: contextSummarySchema.prefault({}),
  metrics: metricsSchema.prefault({}),
  recovery: recoverySectionSchema.prefault({}),
  verification: verificationSchema.optional(),
  fleet: fleetSchema.optional(),
};

/** The metadata that an agent may write; the writer adds the rest. */
const metadataInput = section({
  checkpoint_id: checkpointIdSchema.optional(),
  tenant: tokenSchema.optional(),
  task_id: tokenSchema.optional(),
  agent_id: principalSchema.optional(),
  agent_type: tokenSchema,
  session_id: tokenSchema.optional(),
  iteration: count.default(1),
  timestamp: time.optional(),
  parent_ids: parentIds.optional(),
  trigger: triggerSchema.default({ reason: "manual" }),
  handoff_triggers: z.array(firedTriggerSchema).max(LIMITS.parent_count_max).optional(),
  labels: labelsSchema.optional(),
});

/** A checkpoint as an agent writes it, in the body of `create`. Absent sections get empty defaults. */
export const checkpointInputSchema = section({
  schema_version: schemaVersion.default(SCHEMA_VERSION),
  metadata: metadataInput,
  ...sections,
  compliance: section({ retention_policy: retentionSchema.optional() }).optional(),
});

/** The values of a version in the lost store, from whose files the task was restored. */
const replacedValuesSchema = section({
  seq: z.int().min(1),
  version: z.int().min(1),
  parent_ids: parentIds,
  /** Absent: it was not replaced. */
  last_successful_state: checkpointIdSchema.optional(),
});
export type ReplacedValues = z.output<typeof replacedValuesSchema>;

/**
 * The origin of a version that was imported. The version of the origin is this one with `tenant`,
 * `event_log_ref` and the values of `replaced` from here, and with the inner `imported_from` in place of this one; its hash is `hash`.
 */
const importedFromSchema = section({
  fleet: text.nullable(),
  tenant: tokenSchema,
  hash: text,
  event_log_ref: text,
  replaced: replacedValuesSchema.optional(),
});

const complianceSchema = section({
  /** The audit entry of this version: `audit/<tenant>/<task>#<number of the entry>`. */
  event_log_ref: text,
  imported_from: importedFromSchema.optional(),
  retention_policy: retentionSchema,
  /**
   * Random, of this version: its hash cannot be guessed from content with few possible values. The writer makes 64 hexadecimal digits. Absent, or what the agent
   * named so: an earlier version of Fleet wrote it.
   */
  salt: z.string().optional(),
  /** The longest retention floor of the tenant under which a version was committed. It holds also when the setting is lowered. */
  retention_floor: retentionSchema.optional(),
  /** The end of the longer one. Absent: it is a draft, or no time is promised, or it is kept forever. */
  retain_until: time.optional(),
});

/** The checkpoint of another task whose state the first checkpoint of a forked task has. */
export const forkedFromSchema = section({
  task_id: tokenSchema,
  checkpoint_id: checkpointIdSchema,
  version: z.int().min(1),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** The number of the entry that records the fork in the audit trail of that task. */
  entry: z.int().min(1),
});

/** A checkpoint before it is hashed. */
export const unsealedCheckpointSchema = section({
  schema_version: schemaVersion,
  metadata: section({
    ...metadataInput.shape,
    checkpoint_id: checkpointIdSchema,
    tenant: tokenSchema,
    task_id: tokenSchema,
    agent_id: principalSchema,
    timestamp: time,
    parent_ids: parentIds,
    status: z.enum(STATUSES),
    final_status: z.enum(STORED_FINAL_STATUSES).optional(),
    forked_from: forkedFromSchema.optional(),
    /** Starts at 1 and rises by one with every update, every link and the finalization. */
    version: z.int().min(1),
    /** Position among the task's checkpoints in the order of their commits, from 1. */
    seq: z.int().min(1),
    /** The commit time of this version, by the writer's clock. */
    committed_at: time,
  }),
  ...sections,
  compliance: complianceSchema,
});

/** A checkpoint as it is stored and returned. */
export const checkpointSchema = unsealedCheckpointSchema.extend({
  compliance: complianceSchema.extend({
    /** SHA-256, in hex, of the RFC 8785 bytes of the checkpoint without `hash` and `signature`. */
    hash: z.string().regex(/^[0-9a-f]{64}$/),
    /** Of the commit of this version, verified by the reader; only on request, and absent for an unsigned checkpoint. */
    signature: z.union([checkpointSignatureSchema, text]).optional(),
  }),
});

export type CheckpointInput = z.input<typeof checkpointInputSchema>;
export type CheckpointDraft = z.output<typeof checkpointInputSchema>;
export type UnsealedCheckpoint = z.output<typeof unsealedCheckpointSchema>;
export type Checkpoint = z.output<typeof checkpointSchema>;
export type ForkedFrom = z.output<typeof forkedFromSchema>;
export type FiredTrigger = z.output<typeof firedTriggerSchema>;
export type Phase = (typeof PHASES)[number];
export type FinalStatus = (typeof FINAL_STATUSES)[number];
export type StoredFinalStatus = (typeof STORED_FINAL_STATUSES)[number];
export type TriggerReason = (typeof TRIGGER_REASONS)[number];
