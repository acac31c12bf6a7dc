/**
 * Heartbeats: an agent, or the runner that started it, says every two seconds that it lives and what it is at. Core messages: one that
 * is lost is followed by the next. That nobody says anything is a sign only together with others.
 */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";

export const AGENT_STATES = ["starting", "working", "idle", "stopping"] as const;

export const heartbeatSchema = z.looseObject({
  agent_id: tokenSchema,
  agent_type: tokenSchema,
  /** The task that it has now, and the fence under which it has it. */
  task_id: tokenSchema.optional(),
  fence: z.int().min(0).optional(),
  session_id: tokenSchema.optional(),
  host: z.string().max(256).optional(),
  pid: z.int().min(1).optional(),
  state: z.enum(AGENT_STATES, { error: `one of ${AGENT_STATES.join(", ")}` }),
  /** Until then the step under way may take without anybody worrying. */
  step_deadline: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }).optional(),
  sent_at: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }),
});

export type Heartbeat = z.output<typeof heartbeatSchema>;
