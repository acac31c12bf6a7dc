/**
 * Keeps the standalone's nats-server working: one that ends unasked is started again on the same port, later and later; one that can no
 * longer write a stream, as after a full disk, is started again as soon as there is room.
 */
import { type Clock, systemClock } from "../../shared/runtime/clock.ts";
import { needsRestart } from "./nats-health.ts";
import { type NatsServer, type NatsServerOptions, startNatsServer } from "./nats-server.ts";

const PAUSE_MS = { first: 100, last: 10_000 };
/** A server that ran this long failed for a new reason. */
const STEADY_MS = 60_000;
const LOOK_EVERY_MS = 2_000;

export interface SupervisedNatsServer {
  readonly url: string;
  readonly port: number;
  /** The server of this moment; its monitoring address and process change with a restart. */
  current(): NatsServer;
  stop(): Promise<void>;
}

/** Throws StartupError when the first start fails; later failures are logged and tried again. */
export async function superviseNatsServer(
  o: NatsServerOptions & { readonly clock?: Clock },
): Promise<SupervisedNatsServer> {
  const clock = o.clock ?? systemClock;
  const first = await startNatsServer(o);
  const stopping = new AbortController();
  let server = first;

  const watch = async (): Promise<void> => {
    let pauseMs = PAUSE_MS.first;
    while (!stopping.signal.aborted) {
      const started = clock.monotonic();
      const { code, signal } = await server.exited;
      if (clock.monotonic() - started > STEADY_MS) pauseMs = PAUSE_MS.first;
      while (!stopping.signal.aborted) {
        o.log.error({ code, signal, pause_ms: pauseMs }, "nats-server ended unasked, starting it again");
        await clock.sleep(pauseMs, stopping.signal);
        pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last);
        if (stopping.signal.aborted) return;
        try {
          server = await startNatsServer({ ...o, port: first.port });
          o.log.info({ nats_pid: server.pid, port: server.port }, "nats-server runs again");
          break;
        } catch (error) {
          o.log.error({ error }, "nats-server could not be started again");
        }
      }
    }
  };
  const look = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await clock.sleep(LOOK_EVERY_MS, stopping.signal).catch(() => {});
      if (stopping.signal.aborted || !(await needsRestart(server, o.dir)) || stopping.signal.aborted)
        continue;
      o.log.error({ nats_pid: server.pid }, "nats-server can no longer write a stream, ending it");
      // Its end is unasked for the watch, which starts it again.
      server.kill("SIGTERM");
      await server.exited;
    }
  };
  const watching = Promise.all([watch(), look()]);
  return {
    url: first.url,
    port: first.port,
    current: () => server,
    async stop() {
      stopping.abort();
      await server.stop();
      await watching;
      // A restart that was under way when we were asked has ended by now, and may have left a new server.
      await server.stop();
    },
  };
}
