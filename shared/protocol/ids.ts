/**
 * Identifiers. Checkpoints and commands are UUIDv7 (RFC 9562): time-ordered, made by the caller. Tenants,
 * agents, tasks and sessions are tokens of `[A-Za-z0-9_-]`, because they become tokens of bus subjects, where
 * `.`, `*` and `>` have a meaning.
 */
import { z } from "zod";
import { LIMITS } from "./limits.ts";
import { FLEET_SENDER, PRINCIPAL, PRINCIPAL_FORM } from "./principal.ts";

export const DEFAULT_TENANT = "default";

/** The pattern of a stored checkpoint id: a UUIDv7 in lower case. */
export const CHECKPOINT_ID_PATTERN = "^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";
/** The pattern of a checkpoint id as a caller may write it. */
export const CHECKPOINT_ID_INPUT_PATTERN =
  "^(chk-)?[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-7[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const UUID_V7 = new RegExp(CHECKPOINT_ID_PATTERN);
const TOKEN = new RegExp(`^[A-Za-z0-9_-]{1,${LIMITS.id_chars_max}}$`);
const PREFIX = "chk-";

/** The id of a checkpoint as people and models see it (seed 002). */
export const prefixedCheckpointId = (id: string): string => `${PREFIX}${id}`;

/** Accepts `chk-<uuid>` (seed 002) and upper case, and returns the plain UUID in lower case. */
export function normalizeCheckpointId(value: string): string {
  const bare = value.startsWith(PREFIX) ? value.slice(PREFIX.length) : value;
  return bare.toLowerCase();
}

export function isCheckpointId(value: string): boolean {
  return UUID_V7.test(value);
}

/** Whether a stored value that may be damaged can name a record: a UUID in lower case, of any version. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && UUID.test(value);
}

/** The time in a UUIDv7, in milliseconds since the epoch. */
export function idTime(id: string): number {
  return Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

export const tokenSchema = z
  .string()
  .regex(TOKEN, `1 to ${LIMITS.id_chars_max} characters of A-Z a-z 0-9 _ -`);

/** The agent or person that acts. */
export const principalSchema = z
  .string()
  .regex(PRINCIPAL, PRINCIPAL_FORM)
  .refine((name) => name !== FLEET_SENDER, PRINCIPAL_FORM);

/** The sender of a message. */
export const senderSchema = z.union([principalSchema, z.literal(FLEET_SENDER)]);

export function isToken(value: string): boolean {
  return TOKEN.test(value);
}

export const checkpointIdSchema = z
  .string()
  .transform(normalizeCheckpointId)
  .refine(isCheckpointId, "a UUIDv7, plain or as chk-<uuid>");

export const commandIdSchema = checkpointIdSchema;

/** A SHA-256 in lower-case hex. */
export const digestSchema = z.string().regex(/^[0-9a-f]{64}$/, "a SHA-256 in lower-case hex");
