/**
 * Messages among the agents of a mission: commands, answers and queries. A message is delivered at least once: it is
 * in the mailbox of each recipient until that recipient acknowledges it, which is its receipt. The sender is the agent
 * of the subject.
 */
import { z } from "zod";
import { commandIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { MISSION_ANSWER_FIELDS } from "./mission-answer.ts";
import { MISSION_LIMITS } from "./mission-limits.ts";
import { pageLimit } from "./page-limit.ts";
import { redact } from "./redaction.ts";

/** `delivered`: all recipients have acknowledged it. `failed`: some had not at its deadline. */
export const MESSAGE_STATES = ["queued", "delivered", "failed"] as const;
export type MessageState = (typeof MESSAGE_STATES)[number];

export const MESSAGE_KINDS = [
  /** From an agent or a person. */
  "message",
  /** An event of the mission, for its subscribers. From the fleet. */
  "event",
  /** About a lock that a resumption found. From the fleet, in the name of the coordinator. */
  "notice",
] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];

/** The sender of events. */
export const FLEET_SENDER = "fleet";

/** The events that a mailbox can get (seed 002, "Events flow through Squawk mailbox"). */
export const MAILBOX_EVENTS = [
  "fleet_checkpointed",
  "checkpoint_created",
  "fleet_recovered",
  "context_compacted",
  "recovery_available",
  "mission_changed",
] as const;
export type MailboxEvent = (typeof MAILBOX_EVENTS)[number];

export function isMailboxEvent(type: string): type is MailboxEvent {
  return (MAILBOX_EVENTS as readonly string[]).includes(type);
}

const envelope = {
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
};

/** Secrets are left out, because snapshots and prompts repeat the texts. */
const safeText = (schema: z.ZodString) => schema.transform((text) => redact(text).text);

const messageIdSchema = z.string().regex(/^msg-\d{4,12}$/, "the id of a message, such as msg-0001");

/** `timeout_ms`: the time in which all recipients must acknowledge the message. */
const messageSendCommandSchema = z.looseObject({
  ...envelope,
  to: z
    .array(principalSchema)
    .min(1, "at least one recipient")
    .max(MISSION_LIMITS.message_recipients_count_max)
    .transform((agents) => [...new Set(agents)]),
  subject: safeText(
    z.string().min(1, "at least one character").max(MISSION_LIMITS.message_subject_chars_max),
  ),
  body: safeText(z.string().max(MISSION_LIMITS.message_body_chars_max)).default(""),
  timeout_ms: z
    .int()
    .min(MISSION_LIMITS.message_timeout_ms_min)
    .max(MISSION_LIMITS.message_timeout_ms_max)
    .default(MISSION_LIMITS.message_timeout_ms_default),
});

/** For a recipient, after it has processed the message. May be repeated. */
const messageAckCommandSchema = z.looseObject({ ...envelope, message_id: messageIdSchema });

/** Replaces the subscription of the caller. Without events it is over. */
const mailboxSubscribeCommandSchema = z.looseObject({
  ...envelope,
  events: z
    .array(z.enum(MAILBOX_EVENTS, { error: `one of ${MAILBOX_EVENTS.join(", ")}` }))
    .max(MAILBOX_EVENTS.length)
    .transform((events) => [...new Set(events)]),
});

export const MESSAGE_COMMAND_SCHEMAS = {
  message_send: messageSendCommandSchema,
  message_ack: messageAckCommandSchema,
  mailbox_subscribe: mailboxSubscribeCommandSchema,
} as const;

export const messageAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  message_id: z.string(),
  state: z.enum(MESSAGE_STATES),
  deadline: z.string(),
  /** The recipients that have acknowledged the message. */
  received_by: z.array(z.string()),
  /** Those that have not. */
  missing: z.array(z.string()),
});

export const mailboxAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  agent_id: z.string(),
  events: z.array(z.enum(MAILBOX_EVENTS)),
});

/** Why a resumption does not queue a message of the snapshot again. */
const MESSAGE_SKIPS = [
  "delivered",
  /** It is over, and its place holds another message. */
  "removed",
  /** It was queued again from this checkpoint before, and failed again. */
  "failed_again",
] as const;

export const skippedMessageSchema = z.object({ message_id: z.string(), reason: z.enum(MESSAGE_SKIPS) });
export type SkippedMessage = Readonly<z.output<typeof skippedMessageSchema>>;

const receiptSchema = z.looseObject({ agent_id: z.string(), at: z.string() });

/** A message as queries answer it. */
export const missionMessageSchema = z.looseObject({
  message_id: z.string(),
  kind: z.enum(MESSAGE_KINDS),
  from: z.string(),
  to: z.array(z.string()),
  subject: z.string(),
  body: z.string(),
  sent_at: z.string(),
  deadline: z.string(),
  state: z.enum(MESSAGE_STATES),
  receipts: z.array(receiptSchema),
  /** How often resumptions have queued it again. */
  requeues: z.int(),
  /** The time at which it was delivered or failed; null: it is queued. */
  ended_at: z.string().nullable(),
});

const page = {
  mission_id: tokenSchema,
  limit: pageLimit(MISSION_LIMITS.messages_limit_max, MISSION_LIMITS.messages_limit_default),
  cursor: z.string().max(1_024).optional(),
};

/**
 * The messages to the caller that it has not acknowledged and whose deadline is not over, the oldest first. `all`:
 * then also all others to the caller that the mission keeps, the newest first.
 */
export const mailboxQuerySchema = z.looseObject({ ...page, all: z.boolean().default(false) });

/**
 * The messages of a mission, the newest first. The coordinator and people see all of them, other agents those that they
 * have sent or received.
 */
export const messagesQuerySchema = z.looseObject({
  ...page,
  state: z.enum(MESSAGE_STATES, { error: `one of ${MESSAGE_STATES.join(", ")}` }).optional(),
  /** Only those to or from this agent. */
  agent_id: principalSchema.optional(),
});

export const messagePageSchema = z.looseObject({
  messages: z.array(missionMessageSchema),
  cursor: z.string().exactOptional(),
});

export const mailboxPageSchema = messagePageSchema.extend({
  /** The events that the caller gets as messages. */
  subscribed: z.array(z.enum(MAILBOX_EVENTS)),
});

export type MessageSendCommand = z.output<typeof messageSendCommandSchema>;
export type MessageAckCommand = z.output<typeof messageAckCommandSchema>;
export type MailboxSubscribeCommand = z.output<typeof mailboxSubscribeCommandSchema>;
export type MessageAnswer = z.output<typeof messageAnswerSchema>;
export type MailboxAnswer = z.output<typeof mailboxAnswerSchema>;
export type MissionMessage = z.output<typeof missionMessageSchema>;
export type MessagePage = z.output<typeof messagePageSchema>;
export type MailboxPage = z.output<typeof mailboxPageSchema>;
