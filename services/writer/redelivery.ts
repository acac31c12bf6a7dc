/** Looks now and then whether commands that had left the queue are in it again, and has them delivered: see `redeliverReturned`. */
import type { Bus } from "../../shared/bus/bus.ts";
import { STREAMS } from "../../shared/protocol/subjects.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";

const EVERY_MS = 15_000;

export function startReturned(context: ServiceContext & { readonly backgroundBus: Bus }): Stop {
  const { backgroundBus, clock, log } = context;
  return startTicker({
    name: "returned commands",
    everyMs: EVERY_MS,
    jitter: 0.3,
    run: async () => void (await backgroundBus.stream(STREAMS.queue).redeliverReturned()),
    clock,
    log,
  });
}
