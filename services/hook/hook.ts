/**
 * The helper of the hooks: one process for all agents of a user, started by the first event. It keeps the connections, so that an
 * agent waits a few milliseconds for an answer, and it has no state that is not on disk or in the fleet. It ends when no agent has
 * sent an event for a while.
 */
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { HookConfig } from "./config.ts";
import { FleetConnections } from "./fleet-connections.ts";
import { Inbox } from "./inbox/inbox.ts";
import { listen } from "./listener.ts";
import { SessionQueue } from "./session-queue.ts";
import { SessionWork } from "./session-work.ts";

const IDLE_MS = 30 * 60_000;
const CHECK_MS = 5_000;

export async function start(
  { log, clock }: Pick<ServiceContext, "log" | "clock">,
  config: HookConfig,
): Promise<Stop> {
  const inbox = new Inbox(config.hookDir, log);
  const connections = new FleetConnections({ log, clock });
  const work = new SessionWork({ connections, log, messageFile: config.checkpointMessage });
  const queue = new SessionQueue(work, { log, clock }, inbox);
  const listener = await listen(config.hookDir, (name) => queue.answer(name));
  if (listener === null) {
    log.debug("another helper serves this folder");
    return async () => {};
  }
  inbox.putBack();
  log.info({ events: inbox.names().length }, "helper of the hooks started");
  const stopWatch = inbox.watch((name) => queue.found(name));
  // The events that a killed helper left, or that came while none ran.
  for (const name of inbox.names()) queue.found(name);
  const stopTicker = startTicker({
    name: "hook helper",
    everyMs: CHECK_MS,
    clock,
    log,
    run: async () => {
      // First: without its folder nothing else here works, and the helper would never end.
      if (!listener.isOwn() || queue.idleMs() > IDLE_MS) return void process.kill(process.pid, "SIGTERM");
      for (const name of inbox.names()) queue.found(name);
      queue.forget();
      connections.closeIdle();
    },
  });
  return async () => {
    await stopTicker();
    await stopWatch();
    await listener.stop();
    await queue.stop();
    await connections.close();
    log.info("helper of the hooks stopped");
  };
}
