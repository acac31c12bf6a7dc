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
import { redactionsSchema } from "./redaction-report.ts";

/**
 * `delivered`: all recipients have acknowledged it. `failed`: some had not at its deadline. `cancelled`: its sender, the
 * coordinator or a person has withdrawn it.
 */
export const MESSAGE_STATES = ["queued", "delivered", "failed", "cancelled"] as const;
export type MessageState = (typeof MESSAGE_STATES)[number];

export const MESSAGE_KINDS = [
  /** From an agent or a person. */
  "message",
  /** An event of the mission, for its subscribers. From the fleet. */
  "event",
  /** About a lock that a resumption found, in the name of the coordinator, or about a subscription that has ended. */
  "notice",
] as const;
export type MessageKind = (typeof MESSAGE_KINDS)[number];

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
  /** How many secrets each rule has removed from the command. */
  redactions: redactionsSchema.optional(),
};

/** Secrets are left out, because snapshots and prompts repeat the texts. */
const safeText = (schema: z.ZodString) => schema.transform((text) => redact(text, "stored").text);

/** One line that is not blank: lists and prompts repeat it. */
const SUBJECT =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are refused here.
  /^[^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f][^\u0000-\u001f\u007f-\u009f]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: it is refused here.
const WITHOUT_NUL = /^[^\u0000]*$/;

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
    z
      .string()
      .max(MISSION_LIMITS.message_subject_chars_max)
      .regex(SUBJECT, "one line that is not blank, without control characters"),
  ),
  body: safeText(
    z
      .string()
      .max(MISSION_LIMITS.message_body_chars_max)
      .regex(WITHOUT_NUL, "a text without the character NUL"),
  ).default(""),
  timeout_ms: z
    .int()
    .min(MISSION_LIMITS.message_timeout_ms_min)
    .max(MISSION_LIMITS.message_timeout_ms_max)
    .default(MISSION_LIMITS.message_timeout_ms_default),
});

/** For a recipient, after it has processed the message. May be repeated. */
const messageAckCommandSchema = z.looseObject({ ...envelope, message_id: messageIdSchema });

/** For its sender, the coordinator and people, while it is not delivered. May be repeated. */
const messageCancelCommandSchema = z.looseObject({ ...envelope, message_id: messageIdSchema });

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
  message_cancel: messageCancelCommandSchema,
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
  /** Of a new message: the recipients that have no part in the mission now. They may get one. Absent: none. */
  unknown: z.array(z.string()).exactOptional(),
});

export const mailboxAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  agent_id: z.string(),
  events: z.array(z.enum(MAILBOX_EVENTS)),
});

/** Why a resumption does not queue a message of the snapshot again. */
const MESSAGE_SKIPS = [
  "delivered",
  "cancelled",
  /** It had failed, and newer messages needed its room. */
  "removed",
  /** It was queued again from this checkpoint before, and failed again. */
  "failed_again",
] as const;

export const skippedMessageSchema = z.object({ message_id: z.string(), reason: z.enum(MESSAGE_SKIPS) });
export type SkippedMessage = Readonly<z.output<typeof skippedMessageSchema>>;

const receiptSchema = z.looseObject({ agent_id: z.string(), at: z.string() });

/** A message as queries answer it. */
export const missionMessageSchema = z.looseObject({
  /** The ids of messages are unique in their mission only. */
  mission_id: z.string(),
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
  /** The time at which it was delivered, failed or was cancelled; null: it is queued. */
  ended_at: z.string().nullable(),
});

const page = {
  mission_id: tokenSchema,
  limit: pageLimit(MISSION_LIMITS.messages_limit_max, MISSION_LIMITS.messages_limit_default),
  cursor: z.string().max(1_024).optional(),
};

/**
 * The queued messages to the caller that it has not acknowledged, the oldest first. A message that fails at its deadline
 * leaves this list. `all`: then also all others to the caller that the mission keeps, the newest first.
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
  /** The number of messages that failed before the caller acknowledged them. A resumption queues them again. */
  failed: z.int(),
  /** The events that the caller gets as messages. */
  subscribed: z.array(z.enum(MAILBOX_EVENTS)),
});

export type MessageSendCommand = z.output<typeof messageSendCommandSchema>;
export type MessageAckCommand = z.output<typeof messageAckCommandSchema>;
export type MessageCancelCommand = z.output<typeof messageCancelCommandSchema>;
export type MailboxSubscribeCommand = z.output<typeof mailboxSubscribeCommandSchema>;
export type MessageAnswer = z.output<typeof messageAnswerSchema>;
export type MailboxAnswer = z.output<typeof mailboxAnswerSchema>;
export type MissionMessage = z.output<typeof missionMessageSchema>;
export type MessagePage = z.output<typeof messagePageSchema>;
export type MailboxPage = z.output<typeof mailboxPageSchema>;
