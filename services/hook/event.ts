/**
 * One event of an agent's program, as the hook process kept it, and in the form of the fleet. It is kept as lines of `name=value`, an
 * empty line, and the payload: a shell can write that.
 */
import { createHash } from "node:crypto";
import { isCheckpointMessage } from "../../shared/prompts/checkpoint-message.ts";
import { isToken } from "../../shared/protocol/ids.ts";
import { redact } from "../../shared/protocol/redaction.ts";
import type { TurnEventType } from "../../shared/protocol/turns.ts";
import type { Environment } from "../../shared/runtime/settings/config.ts";
import { HOOK_VENDORS, type HookVendorName, isHookVendor } from "../../shared/sdk/hooks/vendors.ts";

export interface HookEvent {
  readonly vendor: HookVendorName;
  /** In the vendor's word. */
  readonly name: string;
  readonly event: TurnEventType;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** How long the agent waits for the answer. 0: it takes none. */
  readonly waitMs: number;
  /** Where the hook process looks for the answer. */
  readonly answer: "socket" | "file";
  /** The FLEET_ variables of the agent. */
  readonly env: Environment;
  readonly folder: string;
  readonly sessionId: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly isCheckpointMessage: boolean;
  readonly isContinuation: boolean;
  /** Why the session began, ended or failed, in the vendor's word. Known secrets are still in it. */
  readonly reason: string | undefined;
}

const TEXT_MAX = 100;

/** `keptAt`: milliseconds since the epoch, for an event without its own time. Throws TypeError, with the member that is wrong. */
export function parseHookEvent(text: string, keptAt: number): HookEvent {
  const end = text.indexOf("\n\n");
  if (end < 0) throw new TypeError("expected fields, an empty line, and a payload");
  const { env, named: message } = fieldsOf(text.slice(0, end));
  const vendor = message.vendor ?? "";
  if (!isHookVendor(vendor)) throw new TypeError(`vendor: unknown: ${vendor.slice(0, TEXT_MAX)}`);
  const name = message.event ?? "";
  const form = HOOK_VENDORS[vendor].events[name];
  if (form === undefined) throw new TypeError(`event: not one of ${vendor}: ${name.slice(0, TEXT_MAX)}`);
  const at = message.at === undefined ? keptAt : Number(message.at);
  if (!Number.isSafeInteger(at)) throw new TypeError("at: expected milliseconds");
  const payload = objectOf(text.slice(end + 2), "payload");
  const session = stringOf(payload.session_id);
  if (session === undefined || session === "") throw new TypeError("payload.session_id: expected a text");
  const prompt = stringOf(payload.prompt) ?? "";
  return {
    vendor,
    name,
    event: form.event,
    at: startOf(at, form.event, payload),
    waitMs: Number(message.wait) || 0,
    answer: message.answer === "file" ? "file" : "socket",
    env,
    folder: stringOf(payload.cwd) ?? stringOf(message.cwd) ?? "/",
    sessionId: isToken(session) ? session : shortHash(session),
    payload,
    isCheckpointMessage: form.event === "user_prompt_submit" && isCheckpointMessage(prompt),
    isContinuation: payload.stop_hook_active === true,
    reason: form.event === "after_model" ? undefined : reasonOf(payload),
  };
}

/** Mostly one word; a program may report a whole message, with the key that was refused. It is cut before it is sent. */
function reasonOf({ error, reason, source, trigger }: Readonly<Record<string, unknown>>): string | undefined {
  const given = stringOf(error) ?? stringOf(reason) ?? stringOf(source) ?? stringOf(trigger);
  return given && redact(given.slice(0, 20 * TEXT_MAX)).text;
}

/** The hook runs after the tool; the model had answered before it ran. */
function startOf(
  at: number,
  event: TurnEventType,
  { duration_ms: duration }: Readonly<Record<string, unknown>>,
): number {
  const isTool = event === "after_model" && typeof duration === "number" && duration > 0 && duration < at;
  return isTool ? at - Math.round(duration) : at;
}

export const shortHash = (text: string): string =>
  createHash("sha256").update(text).digest("hex").slice(0, 12);

/** Without halves of characters, which the fleet refuses. */
export const stringOf = (value: unknown): string | undefined =>
  typeof value === "string" ? value.toWellFormed() : undefined;

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The message of a parser would repeat a part of the text, which may be secret. */
function objectOf(text: string, name: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new TypeError(`${name}: expected JSON`);
  }
  if (!isObject(value)) throw new TypeError(`${name}: expected an object`);
  return value;
}

/** `env`: the variables of the agent that begin with FLEET_. */
function fieldsOf(text: string): { readonly env: Environment; readonly named: Environment } {
  const fields = text.split("\n").map((line) => {
    const at = line.indexOf("=");
    return [line.slice(0, at), line.slice(at + 1)] as const;
  });
  const isVariable = ([name]: readonly [string, string]) => name.startsWith("FLEET_");
  return {
    env: Object.fromEntries(fields.filter(isVariable)),
    named: Object.fromEntries(fields.filter((field) => !isVariable(field))),
  };
}
