/**
 * A dead letter on the bus: the unchanged body of a command, with headers that identify it and say why it
 * could not be applied. Letters can thus be listed without their bodies, and put back byte for byte.
 */
import { ERROR_CODES, type ErrorBody, type FleetError } from "./errors.ts";
import { commandIdSchema, DEFAULT_TENANT, isToken } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { isPrincipal } from "./principal.ts";
import type { DeadLetter } from "./queue-queries.ts";
import { HEADERS, queuedTokens } from "./subjects.ts";

/** The headers that a command keeps on its way from the queue into a dead letter and back. */
const KEPT = [HEADERS.contentType, HEADERS.replyTo, HEADERS.protocol] as const;

interface Carrier {
  get(name: string): string | undefined;
}

/** A queued command that could not be applied. */
export interface UnappliedCommand {
  /** The subject under which the queue stored it. */
  readonly subject: string;
  readonly headers: Carrier;
  readonly sizeBytes: number;
  readonly commandId: string | null;
  /**
   * The hash that identifies copies of the command (`shared/integrity/request-hash.ts`). null: the body is no
   * command.
   */
  readonly contentHash: string | null;
  readonly queuedAtMs: number;
  readonly deadAtMs: number;
  readonly error: FleetError;
}

export function deadReason(error: FleetError): string {
  return error.code.toLowerCase();
}

/** The tenant for the letter's subject. A command without a readable one is shown to the default tenant. */
export function deadTenant(subject: string): string {
  const { tenant } = queuedTokens(subject);
  return isToken(tenant) ? tenant : DEFAULT_TENANT;
}

/** The task for the letter's subject; `unknown` for a task that is no token. */
export function deadTask(subject: string): string {
  const { task } = queuedTokens(subject);
  return isToken(task) ? task : "unknown";
}

/** Whether the stream of dead letters accepts a letter of the largest size. A limit of 0 or less is none. */
export function hasRoomForLetter({ bytes, bytesMax }: { bytes: number; bytesMax: number }): boolean {
  return bytesMax <= 0 || bytesMax - bytes > LIMITS.payload_bytes_max + LIMITS.queue_headers_bytes_max;
}

export function deadHeaders(letter: UnappliedCommand): Record<string, string> {
  return {
    ...keptHeaders(letter.headers),
    [HEADERS.deadSubject]: letter.subject,
    [HEADERS.deadError]: errorText(letter.error.toBody()),
    [HEADERS.queuedAt]: new Date(letter.queuedAtMs).toISOString(),
    [HEADERS.deadAt]: new Date(letter.deadAtMs).toISOString(),
    [HEADERS.size]: String(letter.sizeBytes),
    ...(letter.contentHash !== null && { [HEADERS.deadContent]: letter.contentHash }),
    ...(letter.commandId !== null && { [HEADERS.deadCommand]: letter.commandId }),
  };
}

/**
 * The headers to keep. A foreign header may be longer than a dead letter can store, so long ones are dropped.
 */
export function keptHeaders(headers: Carrier): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of KEPT) {
    const value = headers.get(name);
    if (value !== undefined && value.length <= 256) kept[name] = value;
  }
  return kept;
}

/**
 * The error as JSON in plain ASCII, because clients decode other characters in headers differently. Without
 * details if too long.
 */
function errorText(error: ErrorBody): string {
  const { fields: _fields, details: _details, ...short } = error;
  const text = ascii(JSON.stringify(error));
  return text.length <= LIMITS.dead_error_chars_max ? text : ascii(JSON.stringify(short));
}

function ascii(text: string): string {
  return text.replaceAll(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The content of a dead letter. */
export type Letter = Omit<DeadLetter, "applied_at">;

/** The command's id and content hash. null: the letter holds no command. */
export function commandOf(headers: Carrier): { readonly id: string; readonly contentHash: string } | null {
  const id = commandIdSchema.safeParse(headers.get(HEADERS.deadCommand));
  const contentHash = headers.get(HEADERS.deadContent);
  return id.success && contentHash !== undefined ? { id: id.data, contentHash } : null;
}

/** The tokens of `fleet.dead.<tenant>.<stream>.<reason>.<task>`. Letters of an earlier version name no tenant. */
function letterTokens(subject: string) {
  const tokens = subject.split(".");
  const hasTenant = tokens.length > EARLIER_TOKEN_COUNT;
  const [stream = "", reason = ""] = tokens.slice(hasTenant ? 3 : 2);
  return { tenant: hasTenant ? tokens[2] : undefined, stream, reason };
}

const EARLIER_TOKEN_COUNT = 5;

/** The tenant whose operators see the letter. */
export function letterTenant({ subject, headers }: { subject: string; headers: Carrier }): string {
  return letterTokens(subject).tenant ?? deadTenant(headers.get(HEADERS.deadSubject) ?? "");
}

/** Reads a letter's subject and headers. A letter of foreign origin is shown as far as it is readable. */
export function readDeadLetter(letter: { seq: number; subject: string; headers: Carrier }): Letter {
  const { headers } = letter;
  const { stream, reason } = letterTokens(letter.subject);
  const { tenant, agent, task, op } = queuedTokens(headers.get(HEADERS.deadSubject) ?? "");
  const known = (token: string): string | null => (isToken(token) ? token : null);
  return {
    seq: letter.seq,
    stream,
    reason,
    error: readError(headers.get(HEADERS.deadError)),
    tenant: known(tenant),
    agent_id: isPrincipal(agent) ? agent : null,
    task_id: known(task),
    op: known(op),
    command_id: headers.get(HEADERS.deadCommand) ?? null,
    queued_at: headers.get(HEADERS.queuedAt) ?? "",
    dead_at: headers.get(HEADERS.deadAt) ?? "",
    size_bytes: Number(headers.get(HEADERS.size)) || 0,
  };
}

function readError(text: string | undefined): ErrorBody {
  try {
    const error = JSON.parse(text ?? "") as ErrorBody;
    if (ERROR_CODES.includes(error.code)) return error;
  } catch {
    // A foreign letter, answered below.
  }
  return { code: "INTERNAL", message: "the dead letter names no error", retryable: false };
}
