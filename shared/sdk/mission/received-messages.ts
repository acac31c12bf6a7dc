/**
 * The messages to this agent, as they come. Each is acknowledged after the loop has processed it, so an agent that dies in
 * between gets it again. Events only wake the loop: what counts is the mailbox, so neither a lost event nor a lost
 * connection loses a message.
 */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { MissionMessage } from "../../protocol/mission-messages.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import { createWake, type Wake } from "../../runtime/clock.ts";
import type { MissionParts } from "./mission-parts.ts";

export interface ReceiveOptions {
  /** Ends the loop. */
  readonly signal?: AbortSignal | undefined;
}

/** The pause between two looks into the mailbox without an event. */
const LOOK_MS = 5_000;
/** The pause after an error, such as of a fleet that is away. */
const RETRY_MS = 1_000;

type Parts = Pick<MissionParts, "agentId" | "delivery" | "queries" | "clock" | "connection" | "tenant">;

export async function* receiveMessages(
  parts: Parts,
  mission: string,
  { signal }: ReceiveOptions,
): AsyncGenerator<MissionMessage, void, undefined> {
  const { clock } = parts;
  const wake = createWake();
  /** Processed here, and perhaps not acknowledged yet: their receipts are sent again instead. */
  const processed = new Set<string>();
  let stop: (() => Promise<void>) | undefined;
  try {
    while (!hasEnded(signal)) {
      stop ??= await subscribed(parts, mission, wake);
      const waiting = await tried(() => mailboxOf(parts, mission, signal), signal);
      for (const message of waiting ?? []) {
        const { message_id } = message;
        if (!processed.has(message_id)) {
          yield message;
          remember(processed, message_id);
        }
        await tried(() => acknowledged(parts, mission, message_id, signal), signal);
        if (hasEnded(signal)) return;
      }
      if (waiting === null) await clock.sleep(RETRY_MS, signal);
      else if (waiting.length === 0) await clock.wait(LOOK_MS, wake, signal);
    }
  } finally {
    await stop?.();
  }
}

const hasEnded = (signal: AbortSignal | undefined): boolean => signal?.aborted === true;

/** undefined: the bus cannot be subscribed to yet, and the loop looks by itself. */
async function subscribed(
  { connection, tenant, agentId }: Parts,
  mission: string,
  wake: Wake,
): Promise<(() => Promise<void>) | undefined> {
  if (!connection.isUp) return undefined;
  const subscription = connection.bus.subscribe(SUBJECTS.taskEvents(tenant, mission), ({ body }) => {
    const { type, data } = JSON.parse(new TextDecoder().decode(body)) as { type: string; data: object };
    if (!WAKING.has(type)) return;
    const { to } = data as { readonly to?: readonly string[] };
    if (to?.includes(agentId) === true) wake.notify();
  });
  return subscription.catch(() => undefined);
}

const WAKING: ReadonlySet<string> = new Set(["message_sent", "messages_requeued"]);

async function mailboxOf(
  { queries }: Parts,
  missionId: string,
  signal: AbortSignal | undefined,
): Promise<readonly MissionMessage[]> {
  return (await queries.send("mailbox", { missionId, limit: LIMITS.messages_limit_max, signal })).messages;
}

async function acknowledged(
  { delivery }: Parts,
  mission: string,
  message_id: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const receipt = delivery.deliverNow("message_ack", mission, { message_id }, { signal });
  await receipt.catch((error: unknown) => {
    // The message is over, and its place holds another one.
    if (!(error instanceof FleetError && error.code === "NOT_FOUND")) throw error;
  });
}

/** null: the fleet could not answer now, or the loop ends. Throws what a repetition cannot change. */
async function tried<T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T | null> {
  try {
    return await act();
  } catch (error) {
    if (signal?.aborted === true) return null;
    if (error instanceof FleetError && (error.retryable || error.code === "TIMEOUT")) return null;
    throw error;
  }
}

function remember(processed: Set<string>, id: string): void {
  processed.add(id);
  const [oldest] = processed;
  if (processed.size > LIMITS.mission_messages_count_max && oldest !== undefined) processed.delete(oldest);
}
