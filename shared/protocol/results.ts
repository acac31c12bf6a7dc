/** What each query returns, as schemas: for the documents generated from them, and for clients that check what they get. */
import { z } from "zod";
import { agentSchema } from "./agents.ts";
import { errorBodySchema } from "./answers.ts";
import { checkpointSchema } from "./checkpoint.ts";
import { handoffSchema } from "./handoff.ts";
import type { QueryResults } from "./queries.ts";
import type { QueryOp } from "./subjects.ts";
import { taskSchema } from "./task.ts";

const corruptSchema = z.looseObject({
  checkpoint_id: z.string().nullable(),
  version: z.int().nullable(),
  reason: z.string(),
});

const pageSchema = z.looseObject({
  checkpoints: z.array(checkpointSchema),
  corrupt: z.array(corruptSchema),
  cursor: z.string().exactOptional(),
});

const searchSchema = pageSchema.extend({ indexed_through: z.string(), rebuilding: z.boolean() });

const indexSchema = z.looseObject({
  state: z.enum(["ready", "rebuilding"]),
  indexed_through: z.string(),
  behind: z.int(),
  indexed: z.int(),
  total: z.int(),
});

const statusSchema = z.looseObject({
  version: z.string(),
  store: z.looseObject({ engine: z.string(), ok: z.boolean(), detail: z.string() }),
  bus: z.looseObject({ ok: z.boolean(), detail: z.string(), server_version: z.string() }),
  index: indexSchema,
  outbox: z.looseObject({ depth: z.int(), oldest_ms: z.number() }),
  counts: z.looseObject({ tasks: z.int(), checkpoints: z.int(), events: z.int() }),
  uptime_ms: z.number(),
});

const queueSchema = z.looseObject({
  depth: z.int(),
  oldest_age_ms: z.number().nullable(),
  bytes: z.int(),
  bytes_max: z.int(),
  left_total: z.int(),
  dead: z.int(),
  store: z.enum(["ok", "away"]),
});

const deadLetterSchema = z.looseObject({
  seq: z.int(),
  stream: z.string(),
  reason: z.string(),
  error: errorBodySchema,
  tenant: z.string().nullable(),
  agent_id: z.string().nullable(),
  task_id: z.string().nullable(),
  op: z.string().nullable(),
  command_id: z.string().nullable(),
  queued_at: z.string(),
  dead_at: z.string(),
  size_bytes: z.int(),
});

/** Complete by compilation, and each schema's output is what the protocol says the query returns. */
export const RESULT_SCHEMAS = {
  get: z.looseObject({ checkpoint: checkpointSchema }),
  latest: z.looseObject({ checkpoint: checkpointSchema.nullable(), passed_over: z.array(corruptSchema) }),
  history: pageSchema,
  by_agent: searchSchema,
  search: searchSchema,
  task: z.looseObject({ task: taskSchema }),
  audit: z.looseObject({
    task: taskSchema,
    entries: z.array(z.looseObject({ seq: z.int(), entry: z.string(), hash: z.string() })),
    more: z.boolean(),
  }),
  handoff: z.looseObject({ handoff: handoffSchema }),
  handoffs: z.looseObject({ handoffs: z.array(handoffSchema), cursor: z.string().exactOptional() }),
  status: statusSchema,
  index_rebuild: indexSchema,
  index_status: indexSchema,
  agents: z.looseObject({
    agents: z.array(agentSchema),
    listening_since: z.string(),
    cursor: z.string().exactOptional(),
  }),
  queue_status: queueSchema,
  dead_list: z.looseObject({ letters: z.array(deadLetterSchema), next_seq: z.int().nullable() }),
  dead_retry: z.looseObject({ seq: z.int(), command_id: z.string().nullable(), position: z.int() }),
  dead_drop: z.looseObject({ seq: z.int(), command_id: z.string().nullable() }),
} as const satisfies { [Op in QueryOp]: z.ZodType<QueryResults[Op]> };
