/**
 * The order of a task's commands through the queue. Whoever was answered `queued` sends its next commands for the task behind that
 * one (`after`), until one of them is committed. What stands here outlives the process when a file is given, because a command line
 * or a hook is a new process each time; losing the file costs order and nothing else.
 */
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { isCheckpointId, isToken } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Clock } from "../../runtime/clock.ts";

interface Behind {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

const FILE = "after.json";
const COMMANDS_REMEMBERED = 10_000;
const TASKS_KEPT = 1_000;

export class TaskOrder {
  readonly #clock: Clock;
  readonly #folder: string | undefined;
  /** Task → its command that is in the queue, as far as this client knows. */
  readonly #behind = new Map<string, Behind>();
  /** Command → what it was sent behind; a retry has to repeat its bytes. */
  readonly #sent = new Map<string, string | undefined>();
  #saving: Promise<void> = Promise.resolve();

  constructor(clock: Clock, folder?: string) {
    this.#clock = clock;
    this.#folder = folder;
  }

  /** What an earlier process of the agent knew. */
  async load(): Promise<void> {
    if (this.#folder === undefined) return;
    try {
      const kept = JSON.parse(await readFile(join(this.#folder, FILE), "utf8")) as Record<string, Behind>;
      for (const [task, { id, at }] of Object.entries(kept)) {
        const isRecent = this.#clock.now() - at < LIMITS.redelivery_ms_max;
        if (isToken(task) && isCheckpointId(id) && isRecent) this.#behind.set(task, { id, at });
      }
    } catch {
      // None, or half of one: then there is nothing to go behind.
    }
  }

  /** The `after` of a command: the same each time that it is sent. */
  after(task: string, commandId: string): string | undefined {
    if (this.#sent.has(commandId)) return this.#sent.get(commandId);
    const after = this.#behind.get(task)?.id;
    if (this.#sent.size >= COMMANDS_REMEMBERED) this.#sent.delete(this.#sent.keys().next().value as string);
    this.#sent.set(commandId, after);
    return after;
  }

  queued(task: string, commandId: string): void {
    this.#behind.delete(task);
    this.#behind.set(task, { id: commandId, at: this.#clock.now() });
    if (this.#behind.size > TASKS_KEPT) this.#behind.delete(this.#behind.keys().next().value as string);
    this.#save();
  }

  /** Ends going behind a command, when one that was sent behind it was committed. */
  committed(task: string, commandId: string): void {
    const behind = this.#behind.get(task)?.id;
    if (behind === undefined || (behind !== commandId && this.#sent.get(commandId) !== behind)) return;
    this.#behind.delete(task);
    this.#save();
  }

  /** Resolves when everything is on disk. */
  saved(): Promise<void> {
    return this.#saving;
  }

  #save(): void {
    const folder = this.#folder;
    if (folder === undefined) return;
    this.#saving = this.#saving.then(async () => {
      const draft = join(folder, `${FILE}.${uuidv7()}`);
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await writeFile(draft, JSON.stringify(Object.fromEntries(this.#behind)), { mode: 0o600 });
        await rename(draft, join(folder, FILE));
      } catch {
        // No folder, or no room: the next process goes without.
      }
    });
  }
}
