/**
 * The events of a session one after the other, those of different sessions beside each other. A session begins after the events of
 * earlier sessions in its folder, because it may continue one of them.
 */
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import { withRetries } from "../../shared/runtime/retry.ts";
import { type HookEvent, parseHookEvent } from "./event.ts";
import type { Inbox } from "./inbox/inbox.ts";
import { openedEvent, SealedEvent } from "./inbox/sealed-event.ts";
import type { SessionWork } from "./session-work.ts";

/** The wait for a fleet that did not answer the last event, or not in time: an agent is not held by an outage. */
const UNHEALTHY_WAIT_MS = 30;
/** The hook process needs the rest of its wait to print the answer. */
const PRINT_MS = 10;
const ANSWER_KEPT_MS = 5_000;
const RETRY = { attempts: Number.POSITIVE_INFINITY, baseMs: 250, maxMs: 15_000 } as const;

type Context = Pick<ServiceContext, "log" | "clock">;

interface SessionEvents {
  readonly fleet: string;
  readonly folder: string;
  /** Resolves when all are done. */
  readonly done: Promise<void>;
}

interface QueuedEvent {
  readonly waitMs: number;
  readonly fleet: string;
  readonly answer: HookEvent["answer"];
  readonly answered: Promise<string>;
  /** By the monotonic clock. undefined: it is in progress. */
  doneAt?: number;
}

export class SessionQueue {
  readonly #work: SessionWork;
  readonly #context: Context;
  readonly #inbox: Inbox;
  readonly #sessions = new Map<string, SessionEvents>();
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
    const answered = new AbortController();
    const timeout = this.#context.clock.sleep(limitMs, answered.signal).then(() => {
      // A fleet that hangs is not held out at every event: the next one waits less, until an event is taken. The sleep also ends with
      // the answer, which comes before the work is saved.
      if (limitMs > 0 && !answered.signal.aborted && queued.doneAt === undefined)
        this.#late.add(queued.fleet);
      return "";
    });
    return Promise.race([queued.answered, timeout]).finally(() => answered.abort());
  }

  /** An event that was found on disk. Its hook process asks for the answer, or waits for a file. */
  found(name: string): void {
    if (this.#events.has(name)) return;
    const queued = this.#accept(name);
    if (queued === undefined || queued.answer !== "file" || queued.waitMs === 0) return;
    void this.answer(name).then((text) => {
      try {
        this.#inbox.answer(name, text);
      } catch (error) {
        this.#context.log.warn({ error }, "an answer for an agent was not written");
      }
    });
  }

  /** Forgets the answers that no hook process has asked for. */
  forget(): void {
    const now = this.#context.clock.monotonic();
    for (const [name, { doneAt }] of this.#events)
      if (doneAt !== undefined && now - doneAt > ANSWER_KEPT_MS) this.#events.delete(name);
    this.#inbox.forgetAnswers(Date.now() - ANSWER_KEPT_MS);
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the helper is stopping"));
    await Promise.all([...this.#sessions.values()].map(({ done }) => done));
  }

  #accept(name: string): QueuedEvent | undefined {
    const event = this.#read(name);
    if (event === undefined) return undefined;
    this.#lastAt = this.#context.clock.monotonic();
    const key = `${event.vendor}/${event.sessionId}`;
    const fleet = fleetOf(event);
    const answered = new Promise<string>((resolve) => {
      const done = this.#before(key, event).then(() => this.#handle(name, event, resolve));
      const session = { fleet, folder: event.folder, done };
      this.#sessions.set(key, session);
      void done.finally(() => {
        if (this.#sessions.get(key) === session) this.#sessions.delete(key);
        resolve("");
      });
    });
    const queued = { waitMs: event.waitMs, fleet, answer: event.answer, answered };
    this.#events.set(name, queued);
    return queued;
  }

  /** Resolves when the events are done that come before this one. */
  async #before(key: string, event: HookEvent): Promise<void> {
    if (event.event !== "session_start") return this.#sessions.get(key)?.done;
    const earlier = [...this.#sessions.values()].filter(
      ({ fleet, folder }) => fleet === fleetOf(event) && folder === event.folder,
    );
    await Promise.all([this.#sessions.get(key)?.done, ...earlier.map(({ done }) => done)]);
  }

  #read(name: string): HookEvent | undefined {
    const kept = this.#inbox.read(name);
    if (kept === undefined) return undefined;
    try {
      return parseHookEvent(openedEvent(kept.text, name, process.env), kept.keptAt);
    } catch (error) {
      if (error instanceof SealedEvent) return this.#setAside(name, error);
      this.#context.log.error({ problem: (error as Error).message }, "an event of an agent has another form");
      this.#inbox.remove(name);
      return undefined;
    }
  }

  #setAside(name: string, { message, details }: SealedEvent): undefined {
    this.#inbox.setAside(name);
    this.#context.log.error(
      { ...details, problem: message, file: name },
      "an event of an agent was set aside",
    );
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
