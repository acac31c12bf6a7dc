/**
 * The policy of handoffs, recoveries and retention: when an agent should hand off and to which type, the
 * deadlines, the actions after a failure, and what is kept of a task. One default holds for all. A tenant, and an agent type in it, may override any
 * part; a part that is not given keeps its value.
 */
import { z } from "zod";
import { ACCESS_LOG_MODES, type AccessLogMode } from "./access-log.ts";
import { PHASES } from "./checkpoint.ts";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { PROMPT_STYLES } from "./prompt.ts";
import { DEFAULT_ACTIONS, RECOVERY_ACTIONS } from "./recovery-states.ts";
import { DEFAULT_RETENTION, retentionSchema } from "./retention.ts";

const MINUTE_MS = 60_000;

const duration = z.int().min(1_000).max(LIMITS.policy_ms_max);

const HALF_OPEN = `${LIMITS.half_open_ms_min} to ${LIMITS.policy_ms_max}, or null`;

const triggers = {
  /** A fraction of the context window; null: never. */
  context_utilization: z.number().min(0).max(1).nullable(),
  /** A number of errors; null: never. */
  error_count: z.int().min(1).nullable(),
  phase_complete: z.boolean(),
  /** A completed task goes to the type that `next_agent` names for phase `complete`, if it is another one. */
  task_complete: z.boolean(),
  rate_limit: z.boolean(),
};

const nextAgent = {
  /**
   * The agent type for each phase. Without a next phase, or for a phase that is not listed, an agent of the
   * same type continues.
   */
  by_next_phase: z.partialRecord(z.enum(PHASES), tokenSchema),
};

const offer = {
  /** The time after which an offer is repeated. */
  deadline_ms: duration,
  max_attempts: z.int().min(1).max(LIMITS.offer_attempt_count_max),
  prompt_tokens: z.int().min(1).max(LIMITS.prompt_budget_max),
  prompt_style: z.enum(PROMPT_STYLES, { error: `one of ${PROMPT_STYLES.join(", ")}` }),
};

const actions = z
  .array(z.enum(RECOVERY_ACTIONS, { error: `one of ${RECOVERY_ACTIONS.join(", ")}` }))
  .min(1)
  .max(20)
  .readonly();

const recovery = {
  /** The silence after which an agent has failed: at least three heartbeats. */
  silence_ms: duration,
  /** Attempts from the newest sound checkpoint, then from the one before it; then an operator decides. */
  attempts: z.int().min(1).max(100),
  previous_attempts: z.int().min(0).max(100),
  /** The first pause; each further pause is twice as long, up to the maximum. */
  back_off_ms: duration,
  back_off_max_ms: duration,
  /** The limit of attempts in a window of time, whether they make progress or not. */
  window_attempts: z.int().min(1).max(1_000),
  window_ms: duration,
  /**
   * The pause before a probe, once the budget is spent and if the window has room; null: no probe, an
   * operator decides.
   */
  half_open_ms: z
    .int()
    .min(LIMITS.half_open_ms_min, HALF_OPEN)
    .max(LIMITS.policy_ms_max, HALF_OPEN)
    .nullable(),
  /** The actions after the first failure of a class, the second and so on; the last one repeats. */
  actions: z.partialRecord(z.enum(FAILURE_CLASSES), actions),
  /** The agent type that continues when the vendor of an agent type refuses its service. */
  other_agent_type: z.record(tokenSchema, tokenSchema),
};

/** What is kept of a task (NFR-013; seed 002, US-308). Checkpoints of other classes than `working` are kept at least as long as their class promises. */
const retention = {
  /** The class of checkpoints that name none. */
  class: retentionSchema,
  /** Days after its last change for which a checkpoint is kept; null: without limit. */
  days: z.int().min(1).max(LIMITS.retention_days_max).nullable(),
  /** The newest checkpoints of a task that are kept at any age. */
  keep: z.int().min(1).max(LIMITS.retention_keep_max),
  /** Days for which the final checkpoint of a completed task is kept; its others go at once. null: as if it were not completed. */
  completed_days: z.int().min(1).max(LIMITS.retention_days_max).nullable(),
  /** Of more checkpoints than this, the oldest go at any age; null: without limit. */
  max: z.int().min(1).max(LIMITS.retention_max_max).nullable(),
};

const policyShape = {
  triggers: z.strictObject(triggers),
  next_agent: z.strictObject(nextAgent),
  offer: z.strictObject(offer),
  /** The time that the next agent has for its first checkpoint. */
  first_checkpoint_ms: duration,
  recovery: z.strictObject({ ...recovery, actions: z.record(z.enum(FAILURE_CLASSES), actions) }),
  retention: z.strictObject(retention),
};

const wholeSchema = z.strictObject(policyShape);
export type Policy = z.output<typeof wholeSchema>;

export const DEFAULT_POLICY: Policy = {
  triggers: {
    context_utilization: 0.7,
    error_count: 5,
    phase_complete: true,
    task_complete: true,
    rate_limit: true,
  },
  next_agent: {
    by_next_phase: {
      planning: "architecture",
      implementing: "implementation",
      testing: "qa",
      reviewing: "qa",
    },
  },
  offer: {
    deadline_ms: MINUTE_MS,
    max_attempts: 3,
    prompt_tokens: LIMITS.prompt_tokens_default,
    prompt_style: "standard",
  },
  first_checkpoint_ms: 15 * MINUTE_MS,
  recovery: {
    silence_ms: 10_000,
    attempts: 3,
    previous_attempts: 2,
    back_off_ms: 30_000,
    back_off_max_ms: 10 * MINUTE_MS,
    window_attempts: 20,
    window_ms: 60 * MINUTE_MS,
    half_open_ms: null,
    actions: { ...DEFAULT_ACTIONS },
    other_agent_type: {},
  },
  retention: { class: DEFAULT_RETENTION, days: 7, keep: 3, completed_days: 30, max: 100 },
};

/**
 * A misspelt name would silently leave the default in force, so the policy refuses unknown names, unlike the
 * other schemas.
 */
const partSchema = z.strictObject({
  triggers: z.strictObject(triggers).partial().optional(),
  next_agent: z.strictObject(nextAgent).partial().optional(),
  offer: z.strictObject(offer).partial().optional(),
  first_checkpoint_ms: duration.optional(),
  recovery: z.strictObject(recovery).partial().optional(),
  retention: z.strictObject(retention).partial().optional(),
});
type PolicyPart = z.output<typeof partSchema>;

/** Refuse commands with secrets of known shapes, which their sender should have removed. Default: false. */
const refuseSecrets = z.boolean().optional();

/**
 * A class or a duration: no checkpoint goes before it, of any class and at any request. Default: `working`, no floor. A floor of
 * an agent type would be none, because a client could name any type.
 */
const retentionFloor = retentionSchema.optional();

/** Whether reads of content and refused requests are logged, and whether content waits for it. Default: `batched`. */
const accessLog = z.enum(ACCESS_LOG_MODES, { error: `one of ${ACCESS_LOG_MODES.join(", ")}` }).optional();

/** Days for which the access log is kept; null: for good. Default: six years. */
const accessLogDays = z.int().min(1).max(LIMITS.retention_days_max).nullable().optional();

/** What holds for a whole tenant, of any agent type. */
const ofAllTypes = {
  refuse_secrets: refuseSecrets,
  retention_floor: retentionFloor,
  access_log: accessLog,
  access_log_days: accessLogDays,
};

export const policySchema = z.strictObject({
  defaults: partSchema.default({}),
  ...ofAllTypes,
  tenants: z
    .record(
      tokenSchema,
      z.strictObject({
        defaults: partSchema.optional(),
        agent_types: z.record(tokenSchema, partSchema).optional(),
        ...ofAllTypes,
      }),
    )
    .default({}),
});

export type Policies = z.output<typeof policySchema>;

export const DEFAULT_POLICIES: Policies = { defaults: {}, tenants: {} };

function ofTenant({ tenants }: Policies, tenant: string): Policies["tenants"][string] | undefined {
  return Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
}

/** It holds for every agent type: a client could name any. */
export function refusesSecrets(policies: Policies, tenant: string): boolean {
  return ofTenant(policies, tenant)?.refuse_secrets ?? policies.refuse_secrets ?? false;
}

/** The class or duration before whose end no checkpoint of the tenant goes; `working`: there is no floor. */
export function retentionFloorOf(policies: Policies, tenant: string): string {
  return ofTenant(policies, tenant)?.retention_floor ?? policies.retention_floor ?? DEFAULT_RETENTION;
}

export interface AccessLogPolicy {
  readonly mode: AccessLogMode;
  /** null: entries are kept for good. */
  readonly days: number | null;
}

/** By tenant: a fleet may hold regulated content of one tenant beside the work of others, which needs no wait for a log. */
export function accessLogOf(policies: Policies, tenant: string): AccessLogPolicy {
  const own = ofTenant(policies, tenant);
  const mode = own?.access_log ?? policies.access_log ?? "batched";
  const days = [own?.access_log_days, policies.access_log_days].find((one) => one !== undefined);
  return { mode, days: days === undefined ? LIMITS.access_log_days_default : days };
}

const REMEMBERED_MAX = 10_000;

/** By tenant and agent type. Every write needs one, and policies never change. */
const remembered = new WeakMap<Policies, Map<string, Policy>>();

/**
 * The policy for agents of a type: the values of the type override those of its tenant, and these override
 * the defaults.
 */
export function policyOf(policies: Policies, tenant: string, agentType: string): Policy {
  const known = remembered.get(policies) ?? new Map<string, Policy>();
  const name = `${tenant}/${agentType}`;
  const found = known.get(name);
  if (found !== undefined) return found;
  const policy = composedPolicy(policies, tenant, agentType);
  if (known.size >= REMEMBERED_MAX) known.clear();
  remembered.set(policies, known.set(name, policy));
  return policy;
}

function composedPolicy(policies: Policies, tenant: string, agentType: string): Policy {
  const own = ofTenant(policies, tenant);
  const types = own?.agent_types ?? {};
  const typed = Object.hasOwn(types, agentType) ? types[agentType] : undefined;
  return [policies.defaults, own?.defaults, typed].reduce(overridden, DEFAULT_POLICY);
}

function overridden(policy: Policy, part: PolicyPart | undefined): Policy {
  if (part === undefined) return policy;
  return {
    triggers: { ...policy.triggers, ...given(part.triggers) },
    next_agent: {
      by_next_phase: { ...policy.next_agent.by_next_phase, ...given(part.next_agent?.by_next_phase) },
    },
    offer: { ...policy.offer, ...given(part.offer) },
    first_checkpoint_ms: part.first_checkpoint_ms ?? policy.first_checkpoint_ms,
    recovery: {
      ...policy.recovery,
      ...given(part.recovery),
      actions: { ...policy.recovery.actions, ...given(part.recovery?.actions) },
      other_agent_type: { ...policy.recovery.other_agent_type, ...part.recovery?.other_agent_type },
    },
    retention: { ...policy.retention, ...given(part.retention) },
  };
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function given<T extends object>(part: T | undefined): Given<T> {
  return Object.fromEntries(
    Object.entries(part ?? {}).filter(([, value]) => value !== undefined),
  ) as Given<T>;
}
