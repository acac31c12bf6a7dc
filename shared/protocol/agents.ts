/** Agents as the fleet knows them: their last heartbeats, beside the ownership that the store records. */
import { z } from "zod";
import { AGENT_STATES } from "./heartbeat.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

/**
 * `silent`: the agent has sent or promised heartbeats, and sends none now. `unmonitored`: it owns a task and never
 * promised heartbeats, so that the fleet cannot detect its failure.
 */
export const SHOWN_AGENT_STATES = [...AGENT_STATES, "silent", "unmonitored"] as const;

export const agentsQuerySchema = z.looseObject({
  limit: pageLimit(LIMITS.agents_limit_max, LIMITS.agents_limit_default),
  cursor: z.string().max(1_024).optional(),
});

export const agentSchema = z.object({
  agent_id: z.string(),
  /** null: neither a heartbeat nor a checkpoint names it. */
  agent_type: z.string().nullable(),
  /** The task of its heartbeats, or, without heartbeats, a task that it owns. */
  task_id: z.string().nullable(),
  /** The fence of the task, by its heartbeats or by the store. */
  fence: z.int().nullable(),
  /** True if the store records it as the owner of the task under that fence. null: no task. */
  owner: z.boolean().nullable(),
  state: z.enum(SHOWN_AGENT_STATES),
  /** The time until which its current step may take. */
  step_deadline: z.string().nullable(),
  session_id: z.string().nullable(),
  host: z.string().nullable(),
  pid: z.int().nullable(),
  /** By the clock of the reader. null: no heartbeat for as long as the reader remembers. */
  first_beat_at: z.string().nullable(),
  last_beat_at: z.string().nullable(),
});

export type Agent = z.output<typeof agentSchema>;

/** A page before the last may be shorter than `limit`, or empty. */
export interface AgentPage {
  readonly agents: readonly Agent[];
  /** The time since which this reader has received heartbeats. */
  readonly listening_since: string;
  /** Absent on the last page. */
  readonly cursor?: string;
}
