/**
 * A dead letter on the bus: the command's body as it came, and headers that say what it was and why it could not be applied. So it
 * can be listed without reading bodies, and put back byte for byte.
 */
import { ERROR_CODES, type ErrorBody, type FleetError } from "./errors.ts";
import { commandIdSchema, isToken } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import type { DeadLetter } from "./queries.ts";
import { HEADERS, queuedTokens } from "./subjects.ts";

/** What goes with a command from the queue into a dead letter and back. */
const KEPT = [HEADERS.contentType, HEADERS.replyTo] as const;

interface Carrier {
  get(name: string): string | undefined;
}

export interface UnappliedCommand {
  /** As the queue stored it. */
  readonly subject: string;
  readonly headers: Carrier;
  readonly sizeBytes: number;
  readonly commandId: string | null;
  /** By which a copy of the command is known; see `shared/integrity/request-hash.ts`. null: it is no command. */
  readonly contentHash: string | null;
  readonly queuedAtMs: number;
  readonly deadAtMs: number;
  readonly error: FleetError;
}

export function deadReason(error: FleetError): string {
  return error.code.toLowerCase();
}

/** The task for the letter's subject; one that is no token could not stand there. */
export function deadTask(subject: string): string {
  const { task } = queuedTokens(subject);
  return isToken(task) ? task : "unknown";
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

/** Header values are one line; those of a stranger may be longer than anything that we could store again. */
export function keptHeaders(headers: Carrier): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of KEPT) {
    const value = headers.get(name);
    if (value !== undefined && value.length <= 256) kept[name] = value;
  }
  return kept;
}

/** JSON in plain ASCII, which every reader of headers reads alike; without its details where it would be too long. */
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

/** As the letter itself says it. */
export type Letter = Omit<DeadLetter, "applied_at">;

/** null: what is in the letter is no command. */
export function commandOf(headers: Carrier): { readonly id: string; readonly contentHash: string } | null {
  const id = commandIdSchema.safeParse(headers.get(HEADERS.deadCommand));
  const contentHash = headers.get(HEADERS.deadContent);
  return id.success && contentHash !== undefined ? { id: id.data, contentHash } : null;
}

/** What a letter's subject and headers say; a letter that somebody else wrote there is shown as far as it can be read. */
export function readDeadLetter(letter: { seq: number; subject: string; headers: Carrier }): Letter {
  const { headers } = letter;
  const [, , stream = "", reason = ""] = letter.subject.split(".");
  const { tenant, agent, task, op } = queuedTokens(headers.get(HEADERS.deadSubject) ?? "");
  const known = (token: string): string | null => (isToken(token) ? token : null);
  return {
    seq: letter.seq,
    stream,
    reason,
    error: readError(headers.get(HEADERS.deadError)),
    tenant: known(tenant),
    agent_id: known(agent),
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
    // Not ours; said below.
  }
  return { code: "INTERNAL", message: "the letter does not say what was wrong", retryable: false };
}
