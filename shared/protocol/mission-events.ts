/** The data of the events of missions, with the names of seed 002, which are those of its checkpoints. */
import { z } from "zod";
import { MISSION_STATUSES, SORTIE_STATUSES } from "./mission.ts";
import { LOCK_RELEASES } from "./mission-locks.ts";
import { MAILBOX_EVENTS, MESSAGE_KINDS, MESSAGE_STATES } from "./mission-messages.ts";

const status = z.enum(MISSION_STATUSES);
const sortieStatus = z.enum(SORTIE_STATUSES);

const lock = {
  mission_id: z.string(),
  path: z.string(),
  lock_id: z.string(),
  agent_id: z.string(),
  sortie_id: z.string().nullable(),
};

const message = { mission_id: z.string(), message_id: z.string(), from: z.string() };

export const MISSION_EVENT_DATA = {
  mission_started: z.object({ mission_id: z.string(), agent_id: z.string(), status }),
  mission_changed: z.object({
    mission_id: z.string(),
    agent_id: z.string(),
    status_from: status,
    status_to: status,
  }),
  sorties_added: z.object({
    mission_id: z.string(),
    agent_id: z.string(),
    sortie_ids: z.array(z.string()),
  }),
  sortie_changed: z.object({
    mission_id: z.string(),
    sortie_id: z.string(),
    agent_id: z.string(),
    status_from: sortieStatus,
    status_to: sortieStatus,
    assigned_to: z.string().nullable(),
    progress_percent: z.int(),
  }),
  /** An agent holds a file. `fence` grows with every acquisition of the file. */
  lock_acquired: z.object({ ...lock, fence: z.int(), expires_at: z.string() }),
  lock_renewed: z.object({ ...lock, fence: z.int(), expires_at: z.string() }),
  lock_released: z.object({ ...lock, fence: z.int(), reason: z.enum(LOCK_RELEASES) }),
  lock_waiting: z.object({ ...lock, held_by: z.string(), deadline: z.string() }),
  lock_timed_out: z.object({ ...lock, held_by: z.string() }),
  /** Without its texts, which only its sender, its recipients, the coordinator and people may read. */
  message_sent: z.object({
    ...message,
    kind: z.enum(MESSAGE_KINDS),
    to: z.array(z.string()),
    deadline: z.string(),
  }),
  message_acknowledged: z.object({ ...message, agent_id: z.string(), state: z.enum(MESSAGE_STATES) }),
  /** By its sender, the coordinator or a person. */
  message_cancelled: z.object({ ...message, agent_id: z.string() }),
  /** The deadline is over, and these recipients have not acknowledged the message. */
  message_failed: z.object({ ...message, missing: z.array(z.string()) }),
  /** By a resumption. */
  messages_requeued: z.object({
    mission_id: z.string(),
    checkpoint_id: z.string(),
    message_ids: z.array(z.string()),
    to: z.array(z.string()),
  }),
  /** The events that an agent gets as messages; none: its subscription is over. */
  mailbox_subscribed: z.object({
    mission_id: z.string(),
    agent_id: z.string(),
    events: z.array(z.enum(MAILBOX_EVENTS)),
  }),
  /** A checkpoint with the snapshot of a mission. */
  fleet_checkpointed: z.object({
    checkpoint_id: z.string(),
    mission_id: z.string(),
    trigger: z.string(),
    progress_percent: z.int(),
    sortie_count: z.int(),
    lock_count: z.int(),
    message_count: z.int(),
  }),
  sorties_restored: z.object({
    mission_id: z.string(),
    checkpoint_id: z.string(),
    sortie_ids: z.array(z.string()),
  }),
  /** The mission resumed from a checkpoint. */
  fleet_recovered: z.object({
    checkpoint_id: z.string(),
    mission_id: z.string(),
    recovered_sorties: z.int(),
    recovered_locks: z.int(),
    requeued_messages: z.int(),
    recovery_duration_ms: z.int(),
  }),
  /** The mission had no activity for so long that its coordinator may have lost its context. Once per silence. */
  context_compacted: z.object({
    mission_id: z.string(),
    last_activity_at: z.string(),
    inactivity_duration_ms: z.int(),
    checkpoint_available: z.boolean(),
    checkpoint_id: z.string().exactOptional(),
  }),
  /** A silent mission can be resumed from this checkpoint. */
  recovery_available: z.object({
    mission_id: z.string(),
    checkpoint: z.object({
      id: z.string(),
      timestamp: z.string(),
      trigger: z.string(),
      progress_percent: z.int(),
    }),
    message: z.string(),
  }),
  /** The record of a checkpoint with a snapshot. `store` stands for the seed's `sqlite`; `file`: the mirror is on, and copies it. */
  checkpoint_created: z.object({
    checkpoint_id: z.string(),
    mission_id: z.string(),
    trigger: z.string(),
    storage_locations: z.array(z.enum(["store", "file"])),
  }),
} as const;
