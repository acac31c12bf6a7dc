/**
 * The helper of the hooks: one process for all agents of a user, started by the first event. It keeps the connections, so that an
 * agent waits a few milliseconds for an answer, and it has no state that is not on disk or in the fleet. It ends when no agent has
 * sent an event for a while.
 */
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { withRetries } from "../../shared/runtime/retry.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { HookConfig } from "./config.ts";
import { type HookEvent, parseHookEvent } from "./event.ts";
import { FleetConnections } from "./fleet-connections.ts";
import { Inbox } from "./inbox.ts";
import { listen } from "./listener.ts";
import { SessionWork } from "./session-work.ts";

/** The wait for a fleet that did not answer the last event: an agent is not held by an outage. */
const UNHEALTHY_WAIT_MS = 30;
/** The hook process needs the rest of its wait to print the answer. */
const PRINT_MS = 10;
const IDLE_MS = 30 * 60_000;
const CHECK_MS = 5_000;
const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 250, maxMs: 15_000 } as const;

type Context = Pick<ServiceContext, "log" | "clock">;

export async function start({ log, clock }: Context, config: HookConfig): Promise<Stop> {
  const inbox = new Inbox(config.hookDir, log);
  const connections = new FleetConnections(log);
  const work = new SessionWork({ connections, log, messageFile: config.checkpointMessage });
  const queue = new SessionQueue(work, { log, clock }, inbox);
  const listener = await listen(config.hookDir, (name) => queue.answer(name));
  if (listener === null) {
    log.debug("another helper serves this folder");
    return async () => {};
  }
  log.info({ events: inbox.names().length }, "helper of the hooks started");
  // The events that a killed helper left, or that came while none ran.
  for (const name of inbox.names()) void queue.answer(name);
  const stopTicker = startTicker({
    name: "hook helper",
    everyMs: CHECK_MS,
    clock,
    log,
    run: async () => {
      for (const name of inbox.names()) void queue.answer(name);
      if (!listener.isOwn() || queue.idleMs() > IDLE_MS) process.kill(process.pid, "SIGTERM");
    },
  });
  return async () => {
    await stopTicker();
    await listener.stop();
    await queue.stop();
    await connections.close();
    log.info("helper of the hooks stopped");
  };
}

/** The events of a session one after the other, those of different sessions beside each other. */
class SessionQueue {
  readonly #work: SessionWork;
  readonly #context: Context;
  readonly #inbox: Inbox;
  readonly #lastOf = new Map<string, Promise<void>>();
  /** The names of the events that are in progress. */
  readonly #known = new Set<string>();
  readonly #stopping = new AbortController();
  #isHealthy = true;
  #lastAt: number;

  constructor(work: SessionWork, context: Context, inbox: Inbox) {
    this.#work = work;
    this.#context = context;
    this.#inbox = inbox;
    this.#lastAt = context.clock.now();
  }

  idleMs(): number {
    return this.#known.size > 0 ? 0 : this.#context.clock.now() - this.#lastAt;
  }

  /** Resolves with the text to print; an empty one if the fleet does not answer in time, or the agent waits for none. */
  async answer(name: string): Promise<string> {
    const event = this.#known.has(name) ? undefined : this.#read(name);
    if (event === undefined) return "";
    this.#known.add(name);
    this.#lastAt = this.#context.clock.now();
    const answered = new Promise<string>((resolve) => {
      const key = `${event.vendor}/${event.sessionId}`;
      const done = (this.#lastOf.get(key) ?? Promise.resolve()).then(() =>
        this.#handle(name, event, resolve),
      );
      this.#lastOf.set(key, done);
      void done.finally(() => {
        if (this.#lastOf.get(key) === done) this.#lastOf.delete(key);
        resolve("");
      });
    });
    const waitMs = Math.max(0, event.waitMs - PRINT_MS);
    const limitMs = this.#isHealthy ? waitMs : Math.min(waitMs, UNHEALTHY_WAIT_MS);
    const late = new AbortController();
    const timeout = this.#context.clock.sleep(limitMs, late.signal).then(() => "");
    return Promise.race([answered, timeout]).finally(() => late.abort());
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the helper is stopping"));
    await Promise.all(this.#lastOf.values());
  }

  #read(name: string): HookEvent | undefined {
    const text = this.#inbox.read(name);
    if (text === undefined) return undefined;
    try {
      return parseHookEvent(text);
    } catch (error) {
      this.#context.log.error({ problem: (error as Error).message }, "an event of an agent has another form");
      this.#inbox.remove(name);
      return undefined;
    }
  }

  /** Never rejects. An event that the fleet did not take stays on disk for the next helper. */
  async #handle(name: string, event: HookEvent, answer: (text: string) => void): Promise<void> {
    const { log, clock } = this.#context;
    const { signal } = this.#stopping;
    try {
      await withRetries(
        { ...RETRY, clock, signal, retryable: (error) => this.#isOutage(error) },
        async () => {
          signal.throwIfAborted();
          await this.#work.handle(event, answer);
          this.#isHealthy = true;
        },
      );
      this.#inbox.remove(name);
    } catch (error) {
      if (signal.aborted) return;
      log.error({ vendor: event.vendor, event: event.event, error }, "an event of an agent was refused");
      this.#inbox.remove(name);
    } finally {
      this.#known.delete(name);
    }
  }

  #isOutage(error: unknown): boolean {
    const isOutage = error instanceof FleetError && error.retryable;
    if (isOutage && this.#isHealthy) this.#context.log.warn({ error }, "the fleet does not take events now");
    if (isOutage) this.#isHealthy = false;
    return isOutage;
  }
}
