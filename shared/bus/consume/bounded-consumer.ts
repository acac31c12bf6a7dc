/**
 * A durable consumer that several processes share, each with its own limit. A process runs a fixed number of
 * workers, and each asks for its next message only when it is free. A handler may take hours. A message that
 * it acknowledged itself is settled at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Consumer, JsMsg } from "@nats-io/jetstream";
import type { Stop } from "../../runtime/process/service.ts";
import type { ConsumeOptions, DurableMessage } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { ensureConsumer, handled, PULL_MS, pull, type StreamAccess } from "./consume.ts";

const PAUSE_MS = { first: 100, last: 2_000 } as const;

export async function consumeBounded(
  access: StreamAccess,
  o: ConsumeOptions & { readonly concurrencyMax: number },
  handler: (m: DurableMessage) => Promise<void>,
): Promise<Stop> {
  const stopping = new AbortController();
  try {
    await ensureConsumer(access, o);
    const consumer = await access.client.consumers.get(o.stream, o.durable);
    const workers = Array.from({ length: o.concurrencyMax }, () =>
      work(access, o, consumer, handler, stopping.signal),
    );
    return async () => {
      stopping.abort();
      await Promise.all(workers);
    };
  } catch (error) {
    throw busError(error, { stream: o.stream, durable: o.durable });
  }
}

/** One worker: a message, its handler, the next message. Resolves when it is stopped and free. */
async function work(
  access: StreamAccess,
  o: ConsumeOptions,
  consumer: Consumer,
  handler: (m: DurableMessage) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { log } = access;
  let pauseMs: number = PAUSE_MS.first;
  while (!signal.aborted) {
    try {
      const raw = await next(consumer, o.pullMs ?? PULL_MS, signal);
      pauseMs = PAUSE_MS.first;
      if (raw === undefined) continue;
      if (signal.aborted) raw.nak();
      else await handled(raw, o, handler, log);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ error, stream: o.stream, durable: o.durable }, "the next message could not be requested");
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last);
      // The durable may have been removed, or its stream restored from a backup.
      await ensureConsumer(access, o).catch((error: unknown) => {
        log.debug({ error, stream: o.stream, durable: o.durable }, "consumer could not be made");
      });
    }
  }
}

/** undefined: no message came in time, or the signal aborted. */
async function next(consumer: Consumer, ms: number, signal: AbortSignal): Promise<JsMsg | undefined> {
  const asked = await consumer.fetch({ ...pull(ms), max_messages: 1 });
  const end = (): void => asked.stop();
  if (signal.aborted) end();
  signal.addEventListener("abort", end);
  try {
    for await (const raw of asked) return raw;
    return undefined;
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
