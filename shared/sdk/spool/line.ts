/**
 * The lines of a spool file. Every line begins with the line break that ends the bytes before it, and ends with a checksum. A write that
 * was truncated by a kill or a full disk therefore damages only itself: it has no checksum, and no later line can complete it. A power cut may
 * take the beginning of a write and leave the rest of it: zeros stand there, and end the line before like a line break. The
 * body of a command is a single line of JSON, so the file is readable text and the stored bytes are those that are sent.
 *
 *     <line break> <head as JSON> <tab> <body> <tab> <CRC-32 of head, tab and body in hex>
 *
 * The body of a sealed command is encrypted, in base64, and its head has the wrapped key ({@link SpoolSeal}).
 */

import { crc32 } from "node:zlib";
import { type DataKey, encryptBytes } from "../../integrity/encryption/encrypted-bytes.ts";
import { isCheckpointId, isToken } from "../../protocol/ids.ts";
import { QUEUED_OPS, type QueuedOp } from "../../protocol/operations.ts";
import { isPrincipal } from "../../protocol/principal.ts";

/** A command in the spool, with its agent and the bytes that will be sent. */
export interface SpooledCommand {
  readonly tenant: string;
  readonly agentId: string;
  readonly taskId: string;
  readonly op: QueuedOp;
  readonly commandId: string;
  /** When it was spooled, in milliseconds since 1970. */
  readonly at: number;
  /** The command was sent before and had no answer, so it may have been applied. */
  readonly sent: boolean;
  readonly traceparent?: string | undefined;
  readonly body: Uint8Array;
  /** Present while the body is sealed. */
  readonly sealed?: { readonly key: LineKey; readonly head: Uint8Array };
}

/** The wrapped key of a sealed line. */
export interface LineKey {
  /** The id of the key that wraps it. */
  readonly root: string;
  /** In hex. */
  readonly id: string;
  /** In base64. */
  readonly wrapped: string;
}

/** A key with which a process seals, and its wrapped form. */
export interface SealingKey {
  readonly key: DataKey;
  readonly wrapped: LineKey;
}

/** The progress of sending a file. Written before each batch: after a crash it shows which commands may have been sent. */
export interface Mark {
  /** Every command before this offset in the file is in the queue. */
  readonly acked: number;
  /** Every command before this offset may be in the queue. */
  readonly sending: number;
  readonly at: number;
}

/** A line that cannot be sent, kept for an operator. */
export interface Aside {
  readonly reason: AsideReason;
  readonly at: number;
  /** The earliest time at which its command may have been sent; undefined if it was not. */
  readonly since?: number | undefined;
  /** The line from its head to its checksum; in base64 if it is not text. */
  readonly line: string;
}

export type AsideReason = "damaged" | "newer" | "sealed" | "doubtful" | "too_large" | "forbidden";

/** `start` and `end`: offsets in the file. */
export type Line = { readonly start: number; readonly end: number } & (
  | { readonly kind: "command"; readonly command: SpooledCommand }
  | { readonly kind: "mark"; readonly mark: Mark }
  | { readonly kind: "aside"; readonly aside: Aside }
  | { readonly kind: "damaged" }
  /** A newer version of Fleet wrote it. */
  | { readonly kind: "newer" }
);

const BREAK = 0x0a;
const TAB = 0x09;
/** After a power cut it stands where a part of a write is missing, perhaps the line break that ends the line before. No line has this byte. */
const ZERO = 0x00;
const SUM_CHARS = 8;
const FORMAT = 1;
/** Older versions set sealed lines aside, because they cannot open them. */
const SEALED_FORMAT = 2;

/** `key`: seals the body. */
export function commandLine({ body, ...command }: SpooledCommand, key?: SealingKey): Buffer {
  const { tenant, agentId, taskId, op, commandId, at, sent, traceparent } = command;
  const head = {
    tenant,
    agent_id: agentId,
    task_id: taskId,
    op,
    command_id: commandId,
    at,
    sent,
    traceparent,
  };
  return key === undefined ? line({ kind: "command", ...head }, body) : sealedLine(head, body, key);
}

function sealedLine(head: object, body: Uint8Array, { key, wrapped }: SealingKey): Buffer {
  const start = headOf({ v: SEALED_FORMAT, kind: "command", ...head, key: wrapped });
  return wholeLine(start, Buffer.from(encryptBytes(key, body, start).toString("base64")));
}

export function markLine({ acked, sending, at }: Mark): Buffer {
  return line({ kind: "mark", acked, sending, at }, new Uint8Array(0));
}

export function asideLine({ reason, at, since, line: content }: Aside): Buffer {
  return line({ kind: "aside", reason, at, since }, Buffer.from(JSON.stringify(content)));
}

function line(head: object, body: Uint8Array): Buffer {
  if ([BREAK, TAB, ZERO].some((byte) => body.includes(byte)))
    throw new TypeError("a spooled body must be one line");
  return wholeLine(headOf({ v: FORMAT, ...head }), body);
}

const headOf = (head: object): Buffer => Buffer.from(`${JSON.stringify(head)}\t`);

function wholeLine(start: Uint8Array, body: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from("\n"), start, body, Buffer.from(`\t${sum(start, body)}`)]);
}

function sum(start: Uint8Array, body: Uint8Array): string {
  return crc32(body, crc32(start)).toString(16).padStart(SUM_CHARS, "0");
}

/** Every line of a file, in order. Never throws, for any bytes. */
export function* linesOf(file: Uint8Array): Generator<Line> {
  let next = 0;
  let zero = 0;
  for (let start = 0; start < file.length; ) {
    if (next <= start) next = indexOrEnd(file, BREAK, start + 1);
    if (zero <= start) zero = indexOrEnd(file, ZERO, start + 1);
    const end = Math.min(next, zero);
    // The bytes before the first line break were never a whole line.
    const isBreak = file[start] === BREAK || file[start] === ZERO;
    const content = file.subarray(isBreak ? start + 1 : start, end);
    if (content.length > 0) yield { start, end, ...parseLine(content) };
    start = end;
  }
}

function indexOrEnd(file: Uint8Array, byte: number, from: number): number {
  const index = file.indexOf(byte, from);
  return index === -1 ? file.length : index;
}

type Content =
  | { kind: "command"; command: SpooledCommand }
  | { kind: "mark"; mark: Mark }
  | { kind: "aside"; aside: Aside }
  | { kind: "damaged" }
  | { kind: "newer" };

function parseLine(content: Uint8Array): Content {
  const split = content.indexOf(TAB);
  const last = content.length - SUM_CHARS - 1;
  if (split === -1 || last <= split || content[last] !== TAB) return { kind: "damaged" };
  const start = content.subarray(0, split + 1);
  const body = content.subarray(split + 1, last);
  const found = Buffer.from(content.subarray(last + 1)).toString("latin1");
  return found === sum(start, body) ? parseContent(start, body) : { kind: "damaged" };
}

function parseContent(start: Uint8Array, body: Uint8Array): Content {
  try {
    const head = JSON.parse(Buffer.from(start).toString()) as Record<string, unknown>;
    // Its checksum is right, so it is no damage.
    if (typeof head.v === "number" && head.v > SEALED_FORMAT) return { kind: "newer" };
    if (head.v === SEALED_FORMAT) return sealedContent(head, start, body);
    if (head.v !== FORMAT) return { kind: "damaged" };
    if (head.kind === "mark" && isNatural(head.acked) && isNatural(head.sending) && isNatural(head.at))
      return { kind: "mark", mark: { acked: head.acked, sending: head.sending, at: head.at } };
    if (head.kind === "aside") return { kind: "aside", aside: asideOf(head, body) };
    const command = head.kind === "command" ? commandOf(head, body) : undefined;
    return command === undefined ? { kind: "damaged" } : { kind: "command", command };
  } catch {
    return { kind: "damaged" };
  }
}

function sealedContent(head: Record<string, unknown>, start: Uint8Array, body: Uint8Array): Content {
  const command = head.kind === "command" ? commandOf(head, body) : undefined;
  const { root, id, wrapped } = (head.key ?? {}) as Partial<Record<keyof LineKey, unknown>>;
  if (
    command === undefined ||
    typeof root !== "string" ||
    typeof id !== "string" ||
    typeof wrapped !== "string"
  )
    return { kind: "damaged" };
  return { kind: "command", command: { ...command, sealed: { key: { root, id, wrapped }, head: start } } };
}

function asideOf(head: Record<string, unknown>, body: Uint8Array): Aside {
  const line = JSON.parse(Buffer.from(body).toString()) as string;
  const since = isNatural(head.since) ? { since: head.since } : {};
  return { reason: head.reason as AsideReason, at: Number(head.at), ...since, line };
}

/** Validated like any input, because the subject is made from it. */
function commandOf(head: Record<string, unknown>, body: Uint8Array): SpooledCommand | undefined {
  const {
    tenant,
    agent_id: agentId,
    task_id: taskId,
    op,
    command_id: commandId,
    at,
    sent,
    traceparent,
  } = head;
  if (!isName(tenant) || typeof agentId !== "string" || !isPrincipal(agentId) || !isName(taskId))
    return undefined;
  if (typeof commandId !== "string" || !isCheckpointId(commandId) || !isNatural(at)) return undefined;
  const known = QUEUED_OPS.find((one) => one === op);
  if (known === undefined) return undefined;
  return {
    ...{ tenant, agentId, taskId, op: known, commandId, at, body, sent: sent === true },
    ...(typeof traceparent === "string" && { traceparent }),
  };
}

const isName = (value: unknown): value is string => typeof value === "string" && isToken(value);
const isNatural = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
