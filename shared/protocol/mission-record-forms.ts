/**
 * The forms of the records of a mission on disk, for those that an import brings: what is stored is read without further checks, so it must
 * have all members of its kind.
 */
import { z } from "zod";
import { principalSchema, senderSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import {
  fileSchema,
  missionStatusSchema,
  sortieCountsSchema,
  sortieSchema,
  sortieStatusSchema,
} from "./mission.ts";
import { MAILBOX_EVENTS, MESSAGE_KINDS, MESSAGE_STATES } from "./mission-messages.ts";

const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });
const count = z.int().min(0);
const number = z.int().min(1);
/** Far from the end of the safe integers, so that numbers can follow. */
const messageNumber = number.max(1_000_000_000);
const messageTimeout = number.max(LIMITS.message_timeout_ms_max);
/** What stands for a secret may be longer than the secret was. */
const text = (chars: number) => z.string().max(2 * chars);

const missionForm = z.looseObject({
  mission_id: tokenSchema,
  title: text(LIMITS.mission_title_chars_max),
  description: text(LIMITS.mission_description_chars_max).nullable(),
  status: missionStatusSchema,
  agent_type: tokenSchema,
  created_by: principalSchema,
  created_at: time,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  last_activity_at: time,
  sorties: sortieCountsSchema,
  sorties_bytes: count,
  milestone: count,
  silence: z
    .looseObject({
      since: time,
      detected_at: time,
      checkpoint_id: z.string().nullable(),
      checkpoint_at: time.nullable(),
    })
    .exactOptional(),
});

const sortieForm = sortieSchema.extend({
  sortie_id: tokenSchema,
  title: text(LIMITS.mission_title_chars_max),
  status: sortieStatusSchema,
  assigned_to: principalSchema.nullable(),
  files: z.array(fileSchema).max(LIMITS.sortie_files_count_max),
  created_at: time,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  last_activity_at: time,
});

const claim = {
  lock_id: z.string(),
  agent_id: principalSchema,
  sortie_id: tokenSchema.nullable(),
  purpose: text(LIMITS.lock_purpose_chars_max),
  timeout_ms: number,
};

const locksForm = z.looseObject({
  locks: z
    .array(
      z.looseObject({
        ...claim,
        path: fileSchema,
        fence: count,
        acquired_at: time,
        expires_at: time,
        waiters: z
          .array(z.looseObject({ ...claim, since: time, deadline: time }))
          .max(LIMITS.lock_waiters_count_max),
      }),
    )
    .refine((locks) => new Set(locks.map(({ path }) => path)).size === locks.length, {
      error: "each file once",
    }),
});

const mailboxForm = z.looseObject({
  next: messageNumber,
  open: z
    .array(
      z.looseObject({
        number: messageNumber,
        kind: z.enum(MESSAGE_KINDS),
        /** Absent in the records of earlier versions. */
        from: senderSchema.exactOptional(),
        state: z.enum(["queued", "failed"]),
        deadline: time,
        bytes: count,
      }),
    )
    .max(LIMITS.open_messages_count_max + LIMITS.open_events_count_max),
  subscribers: z
    .array(z.looseObject({ agent_id: principalSchema, events: z.array(z.enum(MAILBOX_EVENTS)) }))
    .max(LIMITS.mailbox_subscribers_count_max),
  notices: z.array(z.string()).max(LIMITS.mailbox_notices_count_max),
});

const messageForm = z.looseObject({
  message_id: z.string(),
  number: messageNumber,
  kind: z.enum(MESSAGE_KINDS),
  from: senderSchema,
  to: z.array(principalSchema).min(1, "at least one recipient"),
  subject: text(LIMITS.message_subject_chars_max),
  sent_at: time,
  timeout_ms: messageTimeout,
  deadline: time,
  state: z.enum(MESSAGE_STATES),
  receipts: z.array(z.looseObject({ agent_id: principalSchema, at: time })),
  ended_at: time.nullable(),
  requeues: count,
});

const bodyForm = z.looseObject({ number: messageNumber, text: text(LIMITS.message_body_chars_max) });

export const MISSION_RECORD_FORMS = {
  mission: missionForm,
  sortie: sortieForm,
  locks: locksForm,
  mailbox: mailboxForm,
  message: messageForm,
  body: bodyForm,
} as const;
