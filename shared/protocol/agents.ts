/** Agents as the fleet knows them: what their heartbeats said last, beside what the store says of the tasks that they have. */
import { z } from "zod";
import { AGENT_STATES } from "./heartbeat.ts";
import { LIMITS } from "./limits.ts";

/** `silent`: it owns a task, or was heard of, and says nothing now. */
export const SHOWN_AGENT_STATES = [...AGENT_STATES, "silent"] as const;
export type ShownAgentState = (typeof SHOWN_AGENT_STATES)[number];

export const agentsQuerySchema = z.looseObject({
  limit: z
    .int()
    .min(1, `a number from 1 to ${LIMITS.agents_limit_max}`)
    .max(LIMITS.agents_limit_max, `a number from 1 to ${LIMITS.agents_limit_max}`)
    .default(LIMITS.agents_limit_default),
  cursor: z.string().max(1_024).optional(),
});

export const agentSchema = z.object({
  agent_id: z.string(),
  /** null: it was never heard of, and nothing it wrote says it. */
  agent_type: z.string().nullable(),
  /** The task that it says it is at, or, when it says nothing, one that it owns. */
  task_id: z.string().nullable(),
  /** Under which it says it has the task, or owns it. */
  fence: z.int().nullable(),
  /** Whether the task is its own, under that fence, in the store; null without a task. */
  owner: z.boolean().nullable(),
  state: z.enum(SHOWN_AGENT_STATES),
  /** Until then the step under way may take. */
  step_deadline: z.string().nullable(),
  session_id: z.string().nullable(),
  host: z.string().nullable(),
  pid: z.int().nullable(),
  /** By the clock of the reader; null: not heard of for as long as it remembers. */
  first_beat_at: z.string().nullable(),
  last_beat_at: z.string().nullable(),
});

export type Agent = z.output<typeof agentSchema>;

/** A page may be shorter than asked for, or empty, and not be the last. */
export interface AgentPage {
  readonly agents: readonly Agent[];
  /** Since when the reader that answers has listened: before that it has heard nothing. */
  readonly listening_since: string;
  /** Absent on the last page. */
  readonly cursor?: string;
}
