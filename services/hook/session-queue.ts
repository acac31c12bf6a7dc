/** The events of a session one after the other, those of different sessions beside each other. */
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import { withRetries } from "../../shared/runtime/retry.ts";
import { type HookEvent, parseHookEvent } from "./event.ts";
import type { Inbox } from "./inbox.ts";
import type { SessionWork } from "./session-work.ts";

/** The wait for a fleet that did not answer the last event, or not in time: an agent is not held by an outage. */
const UNHEALTHY_WAIT_MS = 30;
/** The hook process needs the rest of its wait to print the answer. */
const PRINT_MS = 10;
const ANSWER_KEPT_MS = 5_000;
const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 250, maxMs: 15_000 } as const;

type Context = Pick<ServiceContext, "log" | "clock">;

interface QueuedEvent {
  readonly waitMs: number;
  readonly fleet: string;
  readonly answered: Promise<string>;
  /** By the monotonic clock. undefined: it is in progress. */
  doneAt?: number;
}

export class SessionQueue {
  readonly #work: SessionWork;
  readonly #context: Context;
  readonly #inbox: Inbox;
  readonly #lastOf = new Map<string, Promise<void>>();
  /** By the names of their files. The helper may find an event on disk before its hook process asks for the answer. */
  readonly #events = new Map<string, QueuedEvent>();
  readonly #stopping = new AbortController();
  /** The fleets that did not take the last event. The agents of others wait as usual. */
  readonly #unhealthy = new Set<string>();
  /** The fleets that have not answered an event in time, and none since. */
  readonly #late = new Set<string>();
  #lastAt: number;

  constructor(work: SessionWork, context: Context, inbox: Inbox) {
    this.#work = work;
    this.#context = context;
    this.#inbox = inbox;
    this.#lastAt = context.clock.monotonic();
  }

  idleMs(): number {
    return this.#events.size > 0 ? 0 : this.#context.clock.monotonic() - this.#lastAt;
  }

  /** Resolves with the text to print; an empty one if the fleet does not answer in time, or the agent waits for none. */
  async answer(name: string): Promise<string> {
    const queued = this.#events.get(name) ?? this.#accept(name);
    if (queued === undefined) return "";
    const waitMs = Math.max(0, queued.waitMs - PRINT_MS);
    const isSlow = this.#unhealthy.has(queued.fleet) || this.#late.has(queued.fleet);
    const limitMs = isSlow ? Math.min(waitMs, UNHEALTHY_WAIT_MS) : waitMs;
    const late = new AbortController();
    const timeout = this.#context.clock.sleep(limitMs, late.signal).then(() => {
      // A fleet that hangs is not held out at every event: the next one waits less, until an event is taken.
      if (limitMs > 0 && queued.doneAt === undefined) this.#late.add(queued.fleet);
      return "";
    });
    return Promise.race([queued.answered, timeout]).finally(() => late.abort());
  }

  /** Forgets the answers that no hook process has asked for. */
  forget(): void {
    const now = this.#context.clock.monotonic();
    for (const [name, { doneAt }] of this.#events)
      if (doneAt !== undefined && now - doneAt > ANSWER_KEPT_MS) this.#events.delete(name);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the helper is stopping"));
    await Promise.all(this.#lastOf.values());
  }

  #accept(name: string): QueuedEvent | undefined {
    const event = this.#read(name);
    if (event === undefined) return undefined;
    this.#lastAt = this.#context.clock.monotonic();
    const key = `${event.vendor}/${event.sessionId}`;
    const answered = new Promise<string>((resolve) => {
      const done = (this.#lastOf.get(key) ?? Promise.resolve()).then(() =>
        this.#handle(name, event, resolve),
      );
      this.#lastOf.set(key, done);
      void done.finally(() => {
        if (this.#lastOf.get(key) === done) this.#lastOf.delete(key);
        resolve("");
      });
    });
    const queued = { waitMs: event.waitMs, fleet: fleetOf(event), answered };
    this.#events.set(name, queued);
    return queued;
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
    const fleet = fleetOf(event);
    try {
      await withRetries(
        { ...RETRY, clock, signal, retryable: (error) => this.#isOutage(error, fleet) },
        async () => {
          signal.throwIfAborted();
          await this.#work.handle(event, answer);
          this.#unhealthy.delete(fleet);
          this.#late.delete(fleet);
        },
      );
      this.#inbox.remove(name);
    } catch (error) {
      if (signal.aborted) return;
      log.error({ vendor: event.vendor, event: event.event, error }, "an event of an agent was refused");
      this.#inbox.remove(name);
    } finally {
      const queued = this.#events.get(name);
      if (queued !== undefined) queued.doneAt = clock.monotonic();
    }
  }

  #isOutage(error: unknown, fleet: string): boolean {
    const isOutage = error instanceof FleetError && error.retryable;
    if (isOutage && !this.#unhealthy.has(fleet))
      this.#context.log.warn({ error }, "the fleet does not take events now");
    if (isOutage) this.#unhealthy.add(fleet);
    return isOutage;
  }
}

const fleetOf = ({ env }: HookEvent): string => JSON.stringify([env.FLEET_URL, env.FLEET_HOME]);
