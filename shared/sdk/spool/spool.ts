/**
 * A client's spool: commands that no bus took, kept on disk and sent when one is back, by whichever process of the agent is there
 * then. While commands of a task wait here, later ones of this client have to wait behind them; `holds` says so.
 */
import type { Clock, Wake } from "../../runtime/clock.ts";
import { createWake } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { lockFolder } from "../../runtime/process/folder-lock.ts";
import { SpoolFolder } from "./folder.ts";
import { type Aside, commandLine, type SpooledCommand } from "./line.ts";
import { type Send, SpoolSender, unsent } from "./spool-sender.ts";

/** What waits on this machine for a bus. */
export interface Pending {
  readonly commands: number;
  readonly bytes: number;
  /** ISO 8601; null when nothing waits. */
  readonly oldestAt: string | null;
  /** Tasks that have commands here. */
  readonly tasks: readonly string[];
  /** Lines that were set aside for a person, because they cannot be sent. */
  readonly aside: number;
}

export interface SpoolOptions {
  readonly path: string;
  /** Bytes that may wait. */
  readonly bytesMax: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether commands can be sent now. */
  readonly isUp: () => boolean;
  readonly send: Send;
  readonly onGone: (command: SpooledCommand) => void;
  readonly onAside: (aside: Aside, command: SpooledCommand | undefined) => void;
}

const RETRY_MS = { first: 100, last: 5_000 } as const;
/** How often somebody else's sending is looked after. */
const FOLLOW_MS = 200;

export class Spool {
  readonly #options: SpoolOptions;
  readonly #folder: SpoolFolder;
  readonly #sender: SpoolSender;
  /** Task → its last command here. */
  readonly #held = new Map<string, SpooledCommand>();
  readonly #wake: Wake = createWake();
  readonly #stopping = new AbortController();
  #waiters: (() => void)[] = [];
  #running: Promise<void> = Promise.resolve();
  /** Sending failed and has not worked since. */
  #isStuck = false;

  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#folder = new SpoolFolder(options.path, options.bytesMax);
    const { clock, send, onAside } = options;
    this.#sender = new SpoolSender({
      folder: this.#folder,
      clock,
      send,
      onAside,
      onGone: (command) => this.#gone(command),
    });
  }

  get path(): string {
    return this.#folder.path;
  }

  /** Takes up what earlier processes left, and sends from now on whenever it can. */
  async start(): Promise<void> {
    // A folder that cannot be read is told to whoever wants to write to it.
    await this.#remember().catch((error: unknown) =>
      this.#options.log.warn({ error }, "spool is not readable"),
    );
    this.#running = this.#run();
  }

  /** Whether commands of the task wait here, behind which later ones belong. */
  holds(task: string): boolean {
    return this.#held.has(task);
  }

  /** On disk when it resolves. Throws UNAVAILABLE (full, not writable), TIMEOUT when it is not certain. */
  async append(command: SpooledCommand): Promise<void> {
    await this.#folder.append(commandLine(command));
    this.#held.set(command.taskId, command);
    this.#wake.notify();
  }

  /** Resolves with true as soon as nothing of the task waits here; with false after `ms`, or at once when sending does not work. */
  async settled(task: string, ms: number): Promise<boolean> {
    const { clock, isUp } = this.#options;
    const end = clock.monotonic() + ms;
    this.#wake.notify();
    while (this.holds(task)) {
      const left = end - clock.monotonic();
      if (left <= 0 || this.#isStuck || !isUp() || this.#stopping.signal.aborted) return false;
      await this.#change(left);
    }
    return true;
  }

  /** Resolves when nothing waits here, or after `ms`. */
  async flush(ms: number, signal?: AbortSignal): Promise<Pending> {
    const { clock } = this.#options;
    const end = clock.monotonic() + ms;
    this.#wake.notify();
    while (!(await this.#folder.isEmpty())) {
      signal?.throwIfAborted();
      const left = end - clock.monotonic();
      if (left <= 0 || this.#stopping.signal.aborted) break;
      await this.#change(Math.min(left, FOLLOW_MS));
    }
    return this.pending();
  }

  async pending(): Promise<Pending> {
    return pendingOf(this.#folder);
  }

  /** To be called when the bus is there again. */
  wake(): void {
    this.#wake.notify();
  }

  /** What was not sent stays on disk. A batch under way is finished. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#announce();
    await this.#running;
    await this.#folder.end();
  }

  async #remember(): Promise<void> {
    for await (const lines of this.#folder.lines()) {
      for (const { command } of unsent(lines)) this.#held.set(command.taskId, command);
    }
  }

  async #run(): Promise<void> {
    const { clock, isUp, log } = this.#options;
    const { signal } = this.#stopping;
    for (let pause: number = RETRY_MS.first; !signal.aborted; ) {
      let idleMs = Number.POSITIVE_INFINITY;
      try {
        if (isUp() && !(await this.#sendAll())) idleMs = FOLLOW_MS;
        this.#isStuck = false;
        pause = RETRY_MS.first;
      } catch (error) {
        log.debug({ error }, "spool could not be sent");
        this.#isStuck = true;
        idleMs = pause;
        pause = Math.min(pause * 2, RETRY_MS.last);
      }
      this.#announce();
      await clock.wait(Math.min(idleMs, 2 ** 31 - 1), this.#wake, signal);
    }
  }

  /** True when nothing is left; false when somebody else is at it, or we were told to stop. */
  async #sendAll(): Promise<boolean> {
    // Those that were here before we looked: when there are no files, somebody has sent them.
    const before = [...this.#held.values()];
    if (!(await this.#folder.isEmpty())) {
      // Two senders would cost duplicates and nothing else: both send the same lines in the same order under the same ids.
      const lock = lockFolder(this.path, { waitMs: 0 });
      if (lock === undefined) return false;
      try {
        return await this.#sender.run(this.#stopping.signal);
      } finally {
        lock.release();
      }
    }
    for (const command of before) this.#gone(command);
    return true;
  }

  #gone(command: SpooledCommand): void {
    if (this.#held.get(command.taskId)?.commandId === command.commandId) this.#held.delete(command.taskId);
    this.#options.onGone(command);
    this.#announce();
  }

  /** Resolves at the next change, or after `ms`. */
  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#waiters.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #announce(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }
}

export async function pendingOf(folder: SpoolFolder): Promise<Pending> {
  const all: SpooledCommand[] = [];
  for await (const lines of folder.lines()) all.push(...unsent(lines).map(({ command }) => command));
  const oldest = all.reduce((least, { at }) => Math.min(least, at), Number.POSITIVE_INFINITY);
  return {
    commands: all.length,
    bytes: await folder.bytes(),
    oldestAt: all.length === 0 ? null : new Date(oldest).toISOString(),
    tasks: [...new Set(all.map(({ taskId }) => taskId))],
    aside: (await folder.aside()).length,
  };
}
