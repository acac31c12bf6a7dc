/**
 * The protocol's JSON Schemas, derived from the zod schemas. Input schemas describe the values that a caller
 * may write, including short forms and absent defaults. Output schemas describe stored values and answers.
 */

import { z } from "zod";
import { agentCredentialsAnswerSchema, agentCredentialsRequestSchema } from "../agent-credentials.ts";
import { ALERT_DATA, ALERT_TYPES, alertSchema } from "../alerts.ts";
import {
  acknowledgedAnswerSchema,
  committedAnswerSchema,
  errorAnswerSchema,
  handoffAnswerSchema,
  okAnswerSchema,
  ownershipAnswerSchema,
  queuedAnswerSchema,
  recoveryAnswerSchema,
  removedAnswerSchema,
  retentionAnswerSchema,
} from "../answers.ts";
import { checkpointInputSchema, checkpointSchema, PHASES, phaseSchema } from "../checkpoint.ts";
import { COMMAND_SCHEMAS } from "../commands.ts";
import { signatureAnswerSchema } from "../esign.ts";
import { EVENT_DATA, EVENT_TYPES, eventSchema } from "../events.ts";
import { exitReportSchema } from "../exit-report.ts";
import { exportLineSchema } from "../export-lines.ts";
import { heartbeatSchema } from "../heartbeat.ts";
import { CHECKPOINT_ID_INPUT_PATTERN, CHECKPOINT_ID_PATTERN, checkpointIdSchema } from "../ids.ts";
import {
  missionAnswerSchema,
  missionCheckpointAnswerSchema,
  resumptionAnswerSchema,
} from "../mission-commands.ts";
import { lockAnswerSchema } from "../mission-locks.ts";
import { mailboxAnswerSchema, messageAnswerSchema } from "../mission-messages.ts";
import { offerSchema } from "../offer.ts";
import { type AnsweredOp, COMMAND_OPS, isAnsweredOp, QUERY_OPS } from "../operations.ts";
import { QUERY_SCHEMAS } from "../queries.ts";
import { RETENTION_PATTERN, retentionSchema } from "../retention.ts";
import { shredAnswerSchema } from "../shred.ts";
import { RESULT_SCHEMAS } from "./results.ts";
import { settingsSchemas } from "./settings-files.ts";

type Direction = "input" | "output";
export type JsonSchema = Record<string, unknown>;

/** The JSON Schemas of zod schemas that contain code, which JSON Schema cannot express. */
const SPELLED: ReadonlyMap<unknown, Readonly<Record<Direction, JsonSchema>>> = new Map<
  unknown,
  Readonly<Record<Direction, JsonSchema>>
>([
  [
    checkpointIdSchema,
    {
      input: {
        type: "string",
        pattern: CHECKPOINT_ID_INPUT_PATTERN,
        description: "A UUIDv7, plain or as chk-<uuid>",
      },
      output: { type: "string", pattern: CHECKPOINT_ID_PATTERN, description: "A UUIDv7 in lower case" },
    },
  ],
  [
    phaseSchema,
    {
      input: { type: "string", enum: [...PHASES, "implementation", "verification"] },
      output: { type: "string", enum: [...PHASES] },
    },
  ],
  [
    retentionSchema,
    {
      input: { type: "string", pattern: RETENTION_PATTERN },
      output: { type: "string", pattern: RETENTION_PATTERN },
    },
  ],
]);

/** Large schemas with a file of their own, to which other schemas refer. */
const SHARED: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [checkpointSchema, "./checkpoint.json"],
  [checkpointInputSchema, "./checkpoint-input.json"],
]);

function replace(schema: JsonSchema, by: JsonSchema): void {
  for (const key of Object.keys(schema)) delete schema[key];
  Object.assign(schema, by);
}

function refine(zod: unknown, schema: JsonSchema, isRoot: boolean, io: Direction): void {
  const file = SHARED.get(zod);
  const spelled = SPELLED.get(zod);
  if (file !== undefined && !isRoot) replace(schema, { $ref: file });
  else if (spelled !== undefined) replace(schema, spelled[io]);
  // Further members are allowed everywhere, which is the default of JSON Schema.
  if (Object.keys((schema.additionalProperties as object | undefined) || {}).length === 0) {
    delete schema.additionalProperties;
  }
  // The generated pattern repeats the format at unreadable length.
  if (schema.format === "date-time") delete schema.pattern;
  const options = schema.anyOf as JsonSchema[] | undefined;
  // Short forms are stored in their long form.
  const stored = options?.filter((option) => Object.keys(option).length > 0);
  if (io === "output" && stored?.length === 1 && options?.length !== 1)
    replace(schema, stored[0] as JsonSchema);
}

function jsonSchema(title: string, schema: z.ZodType, io: Direction): JsonSchema {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override: (at) => refine(at.zodSchema, at.jsonSchema as JsonSchema, at.path.length === 0, io),
  });
  return { $schema, title, ...rest };
}

const kebab = (op: string): string => op.replaceAll("_", "-");

export const SCHEMA_FILES = {
  command: (op: string): string => `command-${kebab(op)}.json`,
  query: (op: string): string => `query-${kebab(op)}.json`,
  answer: (kind: string): string => `answer-${kebab(kind)}.json`,
  /** The types of seed 002 are in lower case; one of them has the name of another type in upper case. */
  event: (type: string): string =>
    `${type === type.toLowerCase() ? "fleet-event" : "event"}-${kebab(type.toLowerCase())}.json`,
  alert: (type: string): string => `alert-${kebab(type.toLowerCase())}.json`,
} as const;

/** The schema of one event type: the envelope with its own `type` and `data`. */
export function eventTypeSchema(type: (typeof EVENT_TYPES)[number]): z.ZodType {
  return eventSchema.extend({ type: z.literal(type), data: EVENT_DATA[type] });
}

/** The schema of a query's answer that is no error. */
export function queryAnswerSchema(op: AnsweredOp): z.ZodType {
  return okAnswerSchema.extend({ result: RESULT_SCHEMAS[op] });
}

type SchemaRow = [file: string, title: string, schema: z.ZodType, io: Direction];

/** The answers to commands that were applied. */
const APPLIED: readonly SchemaRow[] = [
  [SCHEMA_FILES.answer("committed"), "Answer to a command that was applied", committedAnswerSchema, "output"],
  [
    SCHEMA_FILES.answer("ownership"),
    "Answer to a take or release that was applied",
    ownershipAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("acknowledged"),
    "Answer to an acknowledge that was applied",
    acknowledgedAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("handoff_state"),
    "Answer to a handoff or cancel_handoff that was applied",
    handoffAnswerSchema,
    "output",
  ],
  [SCHEMA_FILES.answer("recovery"), "Answer to a recover that was applied", recoveryAnswerSchema, "output"],
  [SCHEMA_FILES.answer("removed"), "Answer to a remove that was applied", removedAnswerSchema, "output"],
  [
    SCHEMA_FILES.answer("shred"),
    "Answer to a command of shredding that was applied",
    shredAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("retention"),
    "Answer to a retain or hold that was applied",
    retentionAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("signature"),
    "Answer to a signature_add that was applied",
    signatureAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("resumption"),
    "Answer to a mission_resume that was applied",
    resumptionAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("mission_state"),
    "Answer to a command of a mission that was applied",
    missionAnswerSchema,
    "output",
  ],
  [
    SCHEMA_FILES.answer("mission_snapshot"),
    "Answer to a mission_checkpoint that was applied",
    missionCheckpointAnswerSchema,
    "output",
  ],
  [SCHEMA_FILES.answer("lock"), "Answer to a command of a lock", lockAnswerSchema, "output"],
  [SCHEMA_FILES.answer("message"), "Answer to a command of a message", messageAnswerSchema, "output"],
  [SCHEMA_FILES.answer("mailbox_state"), "Answer to a mailbox_subscribe", mailboxAnswerSchema, "output"],
];

const AGENT_CREDENTIALS: readonly SchemaRow[] = [
  [
    "agent-credentials.json",
    "A runner's request for the credentials of an agent",
    agentCredentialsRequestSchema,
    "input",
  ],
  [
    SCHEMA_FILES.answer("agent_credentials"),
    "Answer to a runner's request for the credentials of an agent",
    agentCredentialsAnswerSchema,
    "output",
  ],
];

/** The JSON Schema of each file, by its name. */
export function jsonSchemas(): Map<string, JsonSchema> {
  const rows: SchemaRow[] = [
    ["checkpoint-input.json", "A checkpoint as an agent writes it", checkpointInputSchema, "input"],
    ["checkpoint.json", "A checkpoint as it is stored and returned", checkpointSchema, "output"],
    ...COMMAND_OPS.map(
      (op): SchemaRow => [
        SCHEMA_FILES.command(op),
        `Body of the command ${op}`,
        COMMAND_SCHEMAS[op],
        "input",
      ],
    ),
    ...APPLIED,
    ...ALERT_TYPES.map(
      (type): SchemaRow => [
        SCHEMA_FILES.alert(type),
        `The alert ${type}`,
        alertSchema.extend({ type: z.literal(type), data: ALERT_DATA[type] }),
        "output",
      ],
    ),
    ["export-line.json", "A line of an export file", exportLineSchema, "output"],
    ["offer.json", "An offer to agents of one type", offerSchema, "output"],
    ["heartbeat.json", "A heartbeat of an agent", heartbeatSchema, "input"],
    ["exit-report.json", "A report of how an agent's process ended", exitReportSchema, "input"],
    ...AGENT_CREDENTIALS,
    [
      SCHEMA_FILES.answer("queued"),
      "Answer to a command that was queued and will be applied later",
      queuedAnswerSchema,
      "output",
    ],
    [SCHEMA_FILES.answer("error"), "Answer to a request that was refused", errorAnswerSchema, "output"],
    ...QUERY_OPS.map(
      (op): SchemaRow => [SCHEMA_FILES.query(op), `Body of the query ${op}`, QUERY_SCHEMAS[op], "input"],
    ),
    ...QUERY_OPS.filter(isAnsweredOp).flatMap((op): SchemaRow[] => [
      [SCHEMA_FILES.answer(op), `Answer to the query ${op}`, queryAnswerSchema(op), "output"],
    ]),
    ...EVENT_TYPES.map(
      (type): SchemaRow => [SCHEMA_FILES.event(type), `The event ${type}`, eventTypeSchema(type), "output"],
    ),
  ];
  const protocol = rows.map(([file, title, schema, io]) => [file, jsonSchema(title, schema, io)] as const);
  return new Map([...protocol, ...settingsSchemas()]);
}
