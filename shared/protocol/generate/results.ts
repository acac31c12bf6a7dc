/** The schemas of query results, for the generated documents and for clients that check their answers. */

import { z } from "zod";
import { ACCESS_LOG_RESULT_SCHEMAS } from "../access-log.ts";
import { agentSchema } from "../agents.ts";
import { acknowledgedAlertsSchema, alertPageSchema, alertStateSchema } from "../alert-queries.ts";
import { errorBodySchema } from "../answers.ts";
import { ARTIFACT_RESULT_SCHEMAS } from "../artifacts.ts";
import { AUDIT_LOG_RESULT_SCHEMAS } from "../audit-log.ts";
import { checkpointSchema } from "../checkpoint.ts";
import { diagnosisSchema } from "../diagnosis.ts";
import { encryptionRotationSchema } from "../encryption.ts";
import { ERROR_CODES } from "../errors.ts";
import { besideCheckpoints, ESIGN_RESULT_SCHEMAS } from "../esign.ts";
import { eventPageSchema } from "../event-queries.ts";
import { streamFindingSchema } from "../fleet-health.ts";
import { handoffSchema } from "../handoff-record.ts";
import { holdPageSchema } from "../holds.ts";
import { resumePreviewSchema } from "../mission-commands.ts";
import { lockListSchema } from "../mission-locks.ts";
import { mailboxPageSchema, messagePageSchema } from "../mission-messages.ts";
import {
  missionPageSchema,
  missionRecordPageSchema,
  missionResultSchema,
  recoveryContextResultSchema,
  sortiePageSchema,
} from "../mission-queries.ts";
import { settledOfferSchema } from "../offer-queries.ts";
import type { AnsweredOp } from "../operations.ts";
import type { QueryResults } from "../queries.ts";
import { POINT_FAILURES } from "../recovery-states.ts";
import { removedSchema } from "../retention.ts";
import { prunablePageSchema } from "../retention-queries.ts";
import { SCRUB_KINDS } from "../scrub.ts";
import { shredPageSchema } from "../shred.ts";
import { shredCertificateSchema } from "../shred-certificate.ts";
import {
  placedEnvelopeSchema,
  revokedKeySchema,
  rotatedKeysSchema,
  signingKeyListSchema,
} from "../signing-keys.ts";
import { listedTaskSchema, taskSchema } from "../task.ts";
import { turnResultSchema } from "../turns.ts";

const auditRecordSchema = z.looseObject({ seq: z.int(), entry: z.string(), hash: z.string() });

const corruptSchema = z.looseObject({
  checkpoint_id: z.string().nullable(),
  version: z.int().nullable(),
  reason: z.string(),
});

const pageSchema = z.looseObject({
  checkpoints: z.array(checkpointSchema),
  corrupt: z.array(corruptSchema),
  cursor: z.string().exactOptional(),
  ...besideCheckpoints,
});

const historySchema = pageSchema.extend({ removed: z.array(removedSchema).exactOptional() });

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
  store: z.looseObject({
    engine: z.string(),
    ok: z.boolean(),
    detail: z.string(),
    encrypted: z.boolean().exactOptional(),
  }),
  bus: z.looseObject({ ok: z.boolean(), detail: z.string(), server_version: z.string() }),
  findings: z.array(streamFindingSchema),
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
  applied_at: z.string().nullable(),
});

const recoveryPointSchema = z.looseObject({
  checkpoint: checkpointSchema.nullable(),
  reason: z.enum(POINT_FAILURES).nullable(),
  details: z.string().nullable(),
  passed_over: z.array(corruptSchema),
  restored: z.array(corruptSchema).exactOptional(),
  owner: z
    .looseObject({ agent_id: z.string(), fence: z.int(), alive_until: z.string().nullable() })
    .nullable(),
  offer: z
    .looseObject({
      agent_type: z.string(),
      is_known: z.boolean(),
      max_attempts: z.int(),
      deadline_ms: z.int(),
    })
    .nullable(),
  refused: z
    .looseObject({
      code: z.enum(ERROR_CODES),
      message: z.string(),
      details: z.record(z.string(), z.unknown()).exactOptional(),
    })
    .nullable(),
  ...besideCheckpoints,
});

const scrubPassSchema = z.looseObject({
  pass: z.int(),
  began_at: z.string(),
  tasks: z.int(),
  checkpoints: z.int(),
  versions: z.int(),
  audit_entries: z.int(),
  unsigned_entries: z.int(),
  bytes: z.int(),
  quarantined: z.int(),
  findings: z.int(),
});

const scrubSchema = z.looseObject({
  current: scrubPassSchema.nullable(),
  last: scrubPassSchema.extend({ ended_at: z.string() }).nullable(),
  requested_pass: z.int().nullable(),
  by: z.string().nullable(),
  rate_bytes: z.int().nullable(),
  every_ms: z.int().nullable(),
  total: z.looseObject({ tasks: z.int(), checkpoints: z.int() }),
});

const scrubFindingSchema = z.looseObject({
  task_id: z.string(),
  kind: z.enum(SCRUB_KINDS),
  checkpoint_id: z.string().nullable(),
  version: z.int().nullable(),
  details: z.string(),
  quarantined: z.boolean(),
  found_at: z.string(),
  pass: z.int(),
});

/** Complete by compilation. The output of each schema is the type that the protocol defines for the query. */
export const RESULT_SCHEMAS = {
  get: z.looseObject({
    checkpoint: checkpointSchema,
    restored: z.array(corruptSchema).exactOptional(),
    ...besideCheckpoints,
  }),
  latest: z.looseObject({
    checkpoint: checkpointSchema.nullable(),
    passed_over: z.array(corruptSchema),
    removed: removedSchema.exactOptional(),
    restored: z.array(corruptSchema).exactOptional(),
    ...besideCheckpoints,
  }),
  history: historySchema,
  by_agent: searchSchema,
  search: searchSchema,
  task: z.looseObject({ task: taskSchema }),
  audit: z.looseObject({
    task: taskSchema,
    entries: z.array(auditRecordSchema),
    more: z.boolean(),
    signatures: z.array(placedEnvelopeSchema).exactOptional(),
  }),
  handoff: z.looseObject({ handoff: handoffSchema }),
  handoffs: z.looseObject({
    handoffs: z.array(handoffSchema),
    corrupt: z.array(z.string()),
    cursor: z.string().exactOptional(),
  }),
  recovery_point: recoveryPointSchema,
  tasks: z.looseObject({
    tasks: z.array(listedTaskSchema),
    corrupt: z.array(z.string()),
    cursor: z.string().exactOptional(),
  }),
  recoveries: z.looseObject({ tasks: z.array(taskSchema), cursor: z.string().exactOptional() }),
  status: statusSchema,
  diagnose: diagnosisSchema,
  index_rebuild: indexSchema,
  index_status: indexSchema,
  scrub_status: scrubSchema,
  scrub_start: scrubSchema,
  scrub_findings: z.looseObject({
    findings: z.array(scrubFindingSchema),
    cursor: z.string().exactOptional(),
  }),
  agents: z.looseObject({
    agents: z.array(agentSchema),
    listening_since: z.string(),
    cursor: z.string().exactOptional(),
  }),
  events: eventPageSchema,
  tenant_audit: z.looseObject({
    head: z.looseObject({ seq: z.int(), hash: z.string() }).nullable(),
    entries: z.array(auditRecordSchema),
    more: z.boolean(),
    signatures: z.array(placedEnvelopeSchema).exactOptional(),
  }),
  access_record: z.looseObject({ recorded: z.int() }),
  turn_event: turnResultSchema,
  prunable: prunablePageSchema,
  holds: holdPageSchema,
  shreds: shredPageSchema,
  shred_certificate: shredCertificateSchema,
  signing_keys: signingKeyListSchema,
  key_rotate: rotatedKeysSchema,
  encryption_rotate: encryptionRotationSchema,
  key_revoke: revokedKeySchema,
  ...ARTIFACT_RESULT_SCHEMAS,
  ...ESIGN_RESULT_SCHEMAS,
  ...AUDIT_LOG_RESULT_SCHEMAS,
  ...ACCESS_LOG_RESULT_SCHEMAS,
  queue_status: queueSchema,
  dead_list: z.looseObject({ letters: z.array(deadLetterSchema), next_seq: z.int().nullable() }),
  dead_retry: z.looseObject({
    seq: z.int(),
    command_id: z.string().nullable(),
    position: z.int(),
    applied_at: z.string().nullable(),
  }),
  dead_drop: z.looseObject({ seq: z.int(), command_id: z.string().nullable() }),
  alerts: alertPageSchema,
  alert: alertStateSchema,
  alert_ack: acknowledgedAlertsSchema,
  offer_settle: settledOfferSchema,
  missions: missionPageSchema,
  mission: missionResultSchema,
  sorties: sortiePageSchema,
  recovery_context: recoveryContextResultSchema,
  resume_preview: resumePreviewSchema,
  mission_records: missionRecordPageSchema,
  locks: lockListSchema,
  mailbox: mailboxPageSchema,
  messages: messagePageSchema,
} as const satisfies { [Op in AnsweredOp]: z.ZodType<QueryResults[Op]> };
