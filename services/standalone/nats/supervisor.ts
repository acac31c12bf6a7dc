/**
 * Keeps the standalone fleet's nats-server running. A server that ends unexpectedly is restarted on the same port, with exponential
 * backoff. A server that can no longer write a stream, as after a full disk, is restarted as soon as there is room.
 */
import { type Clock, createWake, systemClock } from "../../../shared/runtime/clock.ts";
import { natsHealth } from "./health.ts";
import { type NatsServer, type NatsServerOptions, startNatsServer } from "./server.ts";

const PAUSE_MS = { first: 100, last: 10_000 };
/** A failure after this time has a new reason, so the backoff starts again. */
const STEADY_MS = 60_000;
/** The pause between two looks at the health of a quiet server. A look costs the server a pass over all its streams and consumers. */
const QUIET_MS = 15_000;
/** After a line of the server's output that reports a problem, and while it cannot write a stream. */
const TROUBLED_MS = { every: 2_000, for: 60_000 };

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
  const trouble = createWake();
  let troubledAt = Number.NEGATIVE_INFINITY;
  const isQuiet = (): boolean => clock.monotonic() - troubledAt > TROUBLED_MS.for;
  const onTrouble = (): void => {
    const isNew = isQuiet();
    troubledAt = clock.monotonic();
    if (isNew) trouble.notify();
  };
  const first = await startNatsServer({ ...o, onTrouble });
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
          server = await startNatsServer({ ...o, onTrouble, port: first.port });
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
      await clock.wait(isQuiet() ? QUIET_MS : TROUBLED_MS.every, trouble, stopping.signal);
      if (stopping.signal.aborted) return;
      const health = await natsHealth(server, o.dir);
      if (health === "unwritable") troubledAt = clock.monotonic();
      if (health !== "restart" || stopping.signal.aborted) continue;
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
