// People that follow the events of the fleet over HTTP. One of them leaves again and again and comes back with the id of its last event.

import { setTimeout as sleep } from "node:timers/promises";
import { counts, noteFailure } from "./work.ts";

export interface GatewayAccess {
  readonly gatewayUrl: string;
  readonly apiKey: string;
}

const RETURN_MS = 1_000;
const EVENT_ID = /^id: (.+)$/gm;

/** Follows until the end of the process. `leavesAfterMs` null: stays as long as the server keeps the stream. */
export async function followEvents(
  access: GatewayAccess,
  { leavesAfterMs }: { readonly leavesAfterMs: number | null },
): Promise<never> {
  for (let last: string | undefined; ; ) {
    const signal = leavesAfterMs === null ? undefined : AbortSignal.timeout(leavesAfterMs);
    last = await readStream(access, last, signal);
    await sleep(RETURN_MS);
  }
}

/** Returns the id of the last event. */
async function readStream(
  { gatewayUrl, apiKey }: GatewayAccess,
  last: string | undefined,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  let newest = last;
  try {
    const answer = await fetch(`${gatewayUrl}/api/v1/events`, {
      headers: {
        authorization: `Bearer ${apiKey}`,
        accept: "text/event-stream",
        ...(last !== undefined && { "last-event-id": last }),
      },
      ...(signal !== undefined && { signal }),
    });
    if (!answer.ok || answer.body === null) throw new Error(`status ${answer.status}`);
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of answer.body) {
      const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const [, id] of lines.join("\n").matchAll(EVENT_ID)) {
        newest = id;
        counts.events += 1;
      }
    }
  } catch (error) {
    if (signal?.aborted !== true) noteFailure("events", error);
  }
  return newest;
}

/** A read over HTTP. */
export async function readTask({ gatewayUrl, apiKey }: GatewayAccess, taskId: string): Promise<void> {
  const answer = await fetch(`${gatewayUrl}/api/v1/tasks/${taskId}`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  await answer.text();
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  counts.reads += 1;
}
