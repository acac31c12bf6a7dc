/**
 * Heartbeats: every two seconds an agent, or the runner that started it, says that the agent is alive and on
 * which task it works. Core messages: a lost one is followed by the next. Silence counts only while the
 * watchdog is able to receive heartbeats at all.
 */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";

export const AGENT_STATES = ["starting", "working", "idle", "stopping"] as const;

export const heartbeatSchema = z.looseObject({
  agent_id: tokenSchema,
  agent_type: tokenSchema,
  /** The task that it owns now, with its fence. */
  task_id: tokenSchema.optional(),
  fence: z.int().min(0).optional(),
  session_id: tokenSchema.optional(),
  host: z.string().max(256).optional(),
  pid: z.int().min(1).optional(),
  state: z.enum(AGENT_STATES, { error: `one of ${AGENT_STATES.join(", ")}` }),
  /** The time until which its current step may take. Later the step is overdue. */
  step_deadline: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }).optional(),
  sent_at: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }),
});

export type Heartbeat = z.output<typeof heartbeatSchema>;
