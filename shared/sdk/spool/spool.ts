/**
 * A client's spool: commands that are kept on disk while the bus is unavailable, and sent later by any process of the agent. While
 * commands of a task wait here, later ones of this client must wait behind them: see `holds`.
 */
import type { Clock, Wake } from "../../runtime/clock.ts";
import { createWake } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { lockFolder } from "../../runtime/process/folder-lock.ts";
import { SpoolFolder } from "./folder.ts";
import { type Aside, commandLine, type SpooledCommand } from "./line.ts";
import type { SpoolSeal } from "./seal.ts";
import { type Send, SpoolSender, unsent } from "./spool-sender.ts";

/** The commands that wait on this machine for a bus. */
export interface PendingCommands {
  readonly commands: number;
  readonly bytes: number;
  /** ISO 8601; null if no command waits. */
  readonly oldestAt: string | null;
  /** The tasks of the commands. */
  readonly tasks: readonly string[];
  /** The number of lines that were set aside for an operator, because they cannot be sent. */
  readonly aside: number;
}

/** What became of commands through this process. */
export interface SpoolCounts {
  /** Commands that the queue has stored. */
  readonly sent: number;
  /** Commands that were set aside for an operator. */
  readonly aside: number;
  /** Damaged lines that were set aside: the rest of a command, or of a write that was never acknowledged. */
  readonly damaged: number;
}

export interface SpoolOptions {
  readonly path: string;
  /** Called before the first command is stored; its failure does not keep the command from being stored. */
  readonly onFirst?: () => void;
  /** The most bytes that may wait. */
  readonly bytesMax: number;
  readonly seal: SpoolSeal;
  readonly clock: Clock;
  readonly log: Logger;
  /** True while commands can be sent. */
  readonly isUp: () => boolean;
  readonly send: Send;
  /** Called with each command that no longer waits, in the order of its task. */
  readonly onRemoved: (command: SpooledCommand) => void;
  readonly onAside: (aside: Aside, command: SpooledCommand | undefined) => void;
}

const RETRY_MS = { first: 100, last: 5_000 } as const;
/** How often the files are checked while another process sends them. */
const FOLLOW_MS = 200;

export class Spool {
  readonly #options: SpoolOptions;
  readonly #folder: SpoolFolder;
  readonly #sender: SpoolSender;
  /** Task → its last spooled command. */
  readonly #held = new Map<string, SpooledCommand>();
  readonly #wake: Wake = createWake();
  readonly #stopping = new AbortController();
  #waiters: (() => void)[] = [];
  #running: Promise<void> = Promise.resolve();
  #isNoted = false;
  readonly #counts = { removed: 0, refused: 0, newer: 0, damaged: 0 };
  /** The last attempt to send failed. */
  #isStuck = false;

  constructor(options: SpoolOptions) {
    this.#options = options;
    this.#folder = new SpoolFolder(options.path, options.bytesMax);
    const { clock, seal, send } = options;
    this.#sender = new SpoolSender({
      folder: this.#folder,
      clock,
      seal,
      send,
      onAside: (aside, command) => this.#setAside(aside, command),
      onRemoved: (command) => {
        this.#counts.removed += 1;
        this.#removed(command);
      },
    });
  }

  get path(): string {
    return this.#folder.path;
  }

  /** Reads the commands of earlier processes, and sends from now on whenever the bus is available. */
  async start(): Promise<void> {
    // The first command that must be spooled will throw the error of an unreadable folder.
    await this.#readCommands().catch((error: unknown) =>
      this.#options.log.warn({ error }, "spool is not readable"),
    );
    this.#running = this.#run();
  }

  /** True while commands of the task wait here. Later ones must wait behind them. */
  holds(task: string): boolean {
    return this.#held.has(task);
  }

  /** The command is on disk when it resolves. Throws UNAVAILABLE (full, not writable), or TIMEOUT if that is uncertain. */
  async append(command: SpooledCommand): Promise<void> {
    this.#noteOnce();
    await this.#folder.append(commandLine(command, await this.#options.seal.sealingKey()));
    this.#held.set(command.taskId, command);
    this.#wake.notify();
  }

  /** Resolves with true once no command of the task waits here; with false after `ms`, or at once if they cannot be sent. */
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

  /** Resolves when no command waits here, or after `ms`. */
  async flush(ms: number, signal?: AbortSignal): Promise<PendingCommands> {
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

  async pending(): Promise<PendingCommands> {
    return pendingIn(this.#folder);
  }

  get counts(): SpoolCounts {
    const { removed, refused, newer, damaged } = this.#counts;
    return { sent: removed - refused, aside: refused + newer, damaged };
  }

  /** Starts sending at once. Called when the bus is available again. */
  wake(): void {
    this.#wake.notify();
  }

  /** Finishes the current batch. Commands that are left stay on disk. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#announce();
    await this.#running;
    await this.#folder.end();
  }

  #noteOnce(): void {
    if (this.#isNoted) return;
    try {
      this.#options.onFirst?.();
      this.#isNoted = true;
    } catch (error) {
      // A folder that cannot be written is reported by the command itself.
      this.#options.log.warn({ error, spool: this.path }, "the fleet of a spool is not recorded");
    }
  }

  async #readCommands(): Promise<void> {
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

  /** True if no command is left; false if another process sends them, or if the spool is closing. */
  async #sendAll(): Promise<boolean> {
    // Read before the folder: if it is empty, another process has sent these commands.
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
    for (const command of before) this.#removed(command);
    return true;
  }

  #setAside(aside: Aside, command: SpooledCommand | undefined): void {
    if (command !== undefined) this.#counts.refused += 1;
    else if (aside.reason === "newer") this.#counts.newer += 1;
    else this.#counts.damaged += 1;
    this.#options.onAside(aside, command);
  }

  #removed(command: SpooledCommand): void {
    if (this.#held.get(command.taskId)?.commandId === command.commandId) this.#held.delete(command.taskId);
    this.#options.onRemoved(command);
    this.#announce();
  }

  /** Resolves at the next change of the spool, or after `ms`. */
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

export async function pendingIn(folder: SpoolFolder): Promise<PendingCommands> {
  const all: SpooledCommand[] = [];
  for await (const lines of folder.lines()) all.push(...unsent(lines).map(({ command }) => command));
  const oldestAt = all.reduce((oldest, { at }) => Math.min(oldest, at), Number.POSITIVE_INFINITY);
  return {
    commands: all.length,
    bytes: await folder.bytes(),
    oldestAt: all.length === 0 ? null : new Date(oldestAt).toISOString(),
    tasks: [...new Set(all.map(({ taskId }) => taskId))],
    aside: (await folder.aside()).length,
  };
}
