/**
 * The policy of handoffs and recoveries: when an agent should hand off, to whom, how long things may take, and what is done when an agent fails. One default for all; a tenant, and in it an
 * agent type, may differ in any part of it. What is not said stays as it is.
 */
import { z } from "zod";
import { PHASES } from "./checkpoint.ts";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { PROMPT_STYLES } from "./prompt.ts";
import { DEFAULT_ACTIONS, RECOVERY_ACTIONS } from "./recovery-states.ts";

const MINUTE_MS = 60_000;

const times = z.int().min(1_000).max(LIMITS.policy_ms_max);

const HALF_OPEN = `${LIMITS.half_open_ms_min} to ${LIMITS.policy_ms_max}, or null`;

const triggers = {
  /** A fraction of the context window; null: never. */
  context_utilization: z.number().min(0).max(1).nullable(),
  /** So many errors; null: never. */
  error_count: z.int().min(1).nullable(),
  phase_complete: z.boolean(),
  rate_limit: z.boolean(),
};

const nextAgent = {
  /** Who goes on in a phase. Without a next phase, or for one that is not here, an agent of the same type goes on. */
  by_next_phase: z.partialRecord(z.enum(PHASES), tokenSchema),
};

const offer = {
  /** How long an offer stands before it is made again. */
  deadline_ms: times,
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
  /** No sign of life for so long, and the agent is taken for dead. At least three beats. */
  silence_ms: times,
  /** Attempts from the newest checkpoint that verifies, then from the one before it; then a person decides. */
  attempts: z.int().min(1).max(100),
  previous_attempts: z.int().min(0).max(100),
  /** The first pause; each further one is twice as long, up to the longest. */
  back_off_ms: times,
  back_off_max_ms: times,
  /** Whatever they get done, no more attempts than this in so long a time. */
  window_attempts: z.int().min(1).max(1_000),
  window_ms: times,
  /** After how long one more attempt is made for a task whose attempts are spent, as far as the window has room; null: never, a person decides. */
  half_open_ms: z
    .int()
    .min(LIMITS.half_open_ms_min, HALF_OPEN)
    .max(LIMITS.policy_ms_max, HALF_OPEN)
    .nullable(),
  /** What is done after the first failure of a class, the second and so on; the last one repeats. */
  actions: z.partialRecord(z.enum(FAILURE_CLASSES), actions),
  /** Who goes on where the vendor of an agent type refuses its service. */
  other_agent_type: z.record(tokenSchema, tokenSchema),
};

const policyShape = {
  triggers: z.strictObject(triggers),
  next_agent: z.strictObject(nextAgent),
  offer: z.strictObject(offer),
  /** How long the taker has for its first checkpoint. */
  first_checkpoint_ms: times,
  recovery: z.strictObject({ ...recovery, actions: z.record(z.enum(FAILURE_CLASSES), actions) }),
};

const wholeSchema = z.strictObject(policyShape);
export type Policy = z.output<typeof wholeSchema>;

export const DEFAULT_POLICY: Policy = {
  triggers: { context_utilization: 0.7, error_count: 5, phase_complete: true, rate_limit: true },
  next_agent: {
    by_next_phase: {
      planning: "architecture",
      implementing: "implementation",
      testing: "qa",
      reviewing: "qa",
      complete: "documentation",
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
};

/** A misspelt name would leave the default in force unnoticed, so unknown names are refused, here alone. */
const partSchema = z.strictObject({
  triggers: z.strictObject(triggers).partial().optional(),
  next_agent: z.strictObject(nextAgent).partial().optional(),
  offer: z.strictObject(offer).partial().optional(),
  first_checkpoint_ms: times.optional(),
  recovery: z.strictObject(recovery).partial().optional(),
});
type PolicyPart = z.output<typeof partSchema>;

export const policySchema = z.strictObject({
  defaults: partSchema.default({}),
  tenants: z
    .record(
      tokenSchema,
      z.strictObject({
        defaults: partSchema.optional(),
        agent_types: z.record(tokenSchema, partSchema).optional(),
      }),
    )
    .default({}),
});

export type Policies = z.output<typeof policySchema>;

export const DEFAULT_POLICIES: Policies = { defaults: {}, tenants: {} };

/** What is in force for agents of a type, the nearest word first: the type's in its tenant, the tenant's, the policy's defaults. */
export function policyOf(policies: Policies, tenant: string, agentType: string): Policy {
  const own = Object.hasOwn(policies.tenants, tenant) ? policies.tenants[tenant] : undefined;
  const types = own?.agent_types ?? {};
  const typed = Object.hasOwn(types, agentType) ? types[agentType] : undefined;
  return [policies.defaults, own?.defaults, typed].reduce(over, DEFAULT_POLICY);
}

function over(policy: Policy, part: PolicyPart | undefined): Policy {
  if (part === undefined) return policy;
  return {
    triggers: { ...policy.triggers, ...said(part.triggers) },
    next_agent: {
      by_next_phase: { ...policy.next_agent.by_next_phase, ...said(part.next_agent?.by_next_phase) },
    },
    offer: { ...policy.offer, ...said(part.offer) },
    first_checkpoint_ms: part.first_checkpoint_ms ?? policy.first_checkpoint_ms,
    recovery: {
      ...policy.recovery,
      ...said(part.recovery),
      actions: { ...policy.recovery.actions, ...said(part.recovery?.actions) },
      other_agent_type: { ...policy.recovery.other_agent_type, ...part.recovery?.other_agent_type },
    },
  };
}

type Said<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function said<T extends object>(part: T | undefined): Said<T> {
  return Object.fromEntries(Object.entries(part ?? {}).filter(([, value]) => value !== undefined)) as Said<T>;
}
