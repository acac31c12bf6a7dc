/**
 * Keeps the standalone fleet's nats-server running. A server that ends unexpectedly is restarted on the same port, with exponential
 * backoff. A server that can no longer write a stream, as after a full disk, is restarted as soon as there is room.
 */
import { type Clock, systemClock } from "../../../shared/runtime/clock.ts";
import { needsRestart } from "./health.ts";
import { type NatsServer, type NatsServerOptions, startNatsServer } from "./server.ts";

const PAUSE_MS = { first: 100, last: 10_000 };
/** A failure after this time has a new reason, so the backoff starts again. */
const STEADY_MS = 60_000;
const HEALTH_EVERY_MS = 2_000;

export interface SupervisedNatsServer {
  readonly url: string;
  readonly port: number;
  /** The current server. Its monitoring address and its process change with a restart. */
  current(): NatsServer;
  stop(): Promise<void>;
}

/** Throws StartupError if the first start fails. Later failures are logged and retried. */
export async function superviseNatsServer(
  o: NatsServerOptions & { readonly clock?: Clock },
): Promise<SupervisedNatsServer> {
  const clock = o.clock ?? systemClock;
  const first = await startNatsServer(o);
  const stopping = new AbortController();
  let server = first;

  const restartAfterExit = async (): Promise<void> => {
    let pauseMs = PAUSE_MS.first;
    while (!stopping.signal.aborted) {
      const started = clock.monotonic();
      const { code, signal } = await server.exited;
      if (clock.monotonic() - started > STEADY_MS) pauseMs = PAUSE_MS.first;
      while (!stopping.signal.aborted) {
        o.log.error({ code, signal, pause_ms: pauseMs }, "nats-server ended unexpectedly and is restarted");
        await clock.sleep(pauseMs, stopping.signal);
        pauseMs = Math.min(pauseMs * 2, PAUSE_MS.last);
        if (stopping.signal.aborted) return;
        try {
          server = await startNatsServer({ ...o, port: first.port });
          o.log.info({ nats_pid: server.pid, port: server.port }, "nats-server is restarted");
          break;
        } catch (error) {
          o.log.error({ error }, "nats-server could not be restarted");
        }
      }
    }
  };
  const restartWhenUnwritable = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await clock.sleep(HEALTH_EVERY_MS, stopping.signal).catch(() => {});
      if (stopping.signal.aborted || !(await needsRestart(server, o.dir)) || stopping.signal.aborted)
        continue;
      o.log.error({ nats_pid: server.pid }, "nats-server can no longer write a stream and is stopped");
      // For the other loop this exit is unexpected, so it restarts the server.
      server.kill("SIGTERM");
      await server.exited;
    }
  };
  const loops = Promise.all([restartAfterExit(), restartWhenUnwritable()]);
  return {
    url: first.url,
    port: first.port,
    current: () => server,
    async stop() {
      stopping.abort();
      await server.stop();
      await loops;
      // A restart that was in progress has ended by now and may have started a new server.
      await server.stop();
    },
  };
}
