/** A record of a mission as it is on disk: its name, and the bytes whose hash an audit entry states. */
import { z } from "zod";
import { MISSION_LIMITS } from "./mission-limits.ts";

/** `mission`, `locks`, `mailbox`, `sortie/<id>`, `message/<place>` or `body/<place>`. Unique in the mission. */
export const recordNameSchema = z.string().min(1).max(100);

/** Base64. */
export const recordBytesSchema = z
  .string()
  .max(4 * Math.ceil(MISSION_LIMITS.mission_record_bytes_max / 3))
  .regex(/^[A-Za-z0-9+/]*={0,2}$/, "Base64");

export const missionRecordSchema = z.looseObject({ name: recordNameSchema, bytes: recordBytesSchema });
export type StoredMissionRecord = z.output<typeof missionRecordSchema>;
