/**
 * The order of a task's commands through the queue. After the answer `queued`, the client sends its next commands for the task behind
 * the queued one (`after`), until one of them is committed. With a folder this outlives the process, because a command line or a hook
 * is a new process each time. A lost file costs the order and nothing else.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { isCheckpointId, isToken } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Clock } from "../../runtime/clock.ts";

interface QueuedCommand {
  readonly id: string;
  /** When it was queued, in milliseconds since 1970. */
  readonly at: number;
}

const FILE = "after.json";
const COMMANDS_REMEMBERED = 10_000;
const TASKS_KEPT = 1_000;

export class CommandOrder {
  readonly #clock: Clock;
  readonly #folder: string | undefined;
  /** Task → its last queued command, as far as this client knows. */
  readonly #queued = new Map<string, QueuedCommand>();
  /** Command → its `after`, because a retry must repeat the command's bytes. */
  readonly #sent = new Map<string, string | undefined>();
  #saves: Promise<void> = Promise.resolve();

  constructor(clock: Clock, folder?: string) {
    this.#clock = clock;
    this.#folder = folder;
  }

  /** Reads the order that an earlier process of the agent saved. */
  async load(): Promise<void> {
    if (this.#folder === undefined) return;
    try {
      const kept = JSON.parse(await readFile(join(this.#folder, FILE), "utf8")) as Record<
        string,
        QueuedCommand
      >;
      for (const [task, { id, at }] of Object.entries(kept)) {
        const isRecent = this.#clock.now() - at < LIMITS.redelivery_ms_max;
        if (isToken(task) && isCheckpointId(id) && isRecent) this.#queued.set(task, { id, at });
      }
    } catch {
      // No file, or a truncated one: no command is known to be queued.
    }
  }

  /** The `after` of a command, the same each time that it is sent. */
  after(task: string, commandId: string): string | undefined {
    if (this.#sent.has(commandId)) return this.#sent.get(commandId);
    const after = this.#queued.get(task)?.id;
    if (this.#sent.size >= COMMANDS_REMEMBERED) this.#sent.delete(this.#sent.keys().next().value as string);
    this.#sent.set(commandId, after);
    return after;
  }

  queued(task: string, commandId: string): void {
    this.#queued.delete(task);
    this.#queued.set(task, { id: commandId, at: this.#clock.now() });
    if (this.#queued.size > TASKS_KEPT) this.#queued.delete(this.#queued.keys().next().value as string);
    this.#save();
  }

  /** Forgets the queued command once it, or a command that was sent behind it, is committed. */
  committed(task: string, commandId: string): void {
    const queued = this.#queued.get(task)?.id;
    if (queued === undefined || (queued !== commandId && this.#sent.get(commandId) !== queued)) return;
    this.#queued.delete(task);
    this.#save();
  }

  /** Resolves when the order is on disk. */
  saved(): Promise<void> {
    return this.#saves;
  }

  #save(): void {
    const folder = this.#folder;
    if (folder === undefined) return;
    this.#saves = this.#saves.then(async () => {
      const draft = join(folder, `${FILE}.${uuidv7()}`);
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeFile(draft, JSON.stringify(Object.fromEntries(this.#queued)), { mode: 0o600 });
        await rename(draft, join(folder, FILE));
      } catch {
        // No folder, or no space: the next process starts without the order.
      }
    });
  }
}
