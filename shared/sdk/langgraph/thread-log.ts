/**
 * A LangGraph thread as a task of the fleet. Each checkpoint of LangGraph, each set of pending writes and each deletion is a checkpoint of
 * the task, so it is hashed, audited and fenced like any other. Nothing is ever changed: the newest entries decide.
 */
import { createHash } from "node:crypto";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import { type ThreadEntry, threadEntrySchema } from "../../protocol/langgraph-entry.ts";
import type { FleetClient } from "../client/client.ts";
import type { TaskHandle } from "../client/task.ts";
import type { RedactionMode } from "../redaction/secret-settings.ts";
import { entryWithoutSecrets } from "./entry-secrets.ts";
import { NOTHING_READ, ThreadCache } from "./thread-cache.ts";

export interface ThreadLogOptions {
  readonly agentType: string;
  /** Take a thread from an agent that owns it. */
  readonly takeOver: boolean;
  /** Whether secrets are removed from the values. Default: as the client has it for all commands. */
  readonly redaction?: RedactionMode | undefined;
  /** Milliseconds for each call. Default: those of the client. */
  readonly deadlineMs?: number | undefined;
}

const PAGE = 100;
export const THREAD_PREFIX = "langgraph-";

/** The task of a thread. A thread id with other characters than a task id is hashed. */
export function threadTask(threadId: string): string {
  if (/^[A-Za-z0-9_-]{1,50}$/.test(threadId) && !threadId.startsWith("sha-"))
    return `${THREAD_PREFIX}${threadId}`;
  return `${THREAD_PREFIX}sha-${createHash("sha256").update(threadId).digest("hex").slice(0, 40)}`;
}

export class ThreadLog {
  readonly #fleet: FleetClient;
  readonly #options: ThreadLogOptions;
  readonly #read = new ThreadCache();
  readonly #owned = new Map<string, Promise<TaskHandle>>();

  constructor(fleet: FleetClient, options: ThreadLogOptions) {
    this.#fleet = fleet;
    this.#options = options;
  }

  /** Takes the thread before its first entry. Throws CONFLICT if another agent owns it. */
  async take(threadId: string): Promise<void> {
    await this.#ownedTask(threadTask(threadId));
  }

  /** Resolves when the entry is committed. Throws FENCED after another agent has taken the thread. */
  async append(entry: ThreadEntry): Promise<void> {
    const task = await this.#ownedTask(threadTask(entry.thread_id));
    const clean = await entryWithoutSecrets(entry, (values) =>
      task.withoutSecrets(values, this.#options.redaction),
    );
    await task.checkpoint(
      {
        metadata: {
          agent_type: this.#options.agentType,
          trigger: { reason: "progress", details: `LangGraph ${entry.kind}` },
        },
        execution_state: { phase: "implementing", langgraph: clean },
        // Each entry holds only what changed, so the older ones are needed too.
        compliance: { retention_policy: "permanent" },
      },
      // LangGraph continues with what it has put: it must be in the store.
      // A secret that were cut out of an encoded value would leave a text that no longer decodes.
      { ...this.#call, fallback: "none", redaction: "off" },
    );
  }

  /** The entries of a thread since its last deletion, the oldest first. */
  async entries(task: string): Promise<readonly ThreadEntry[]> {
    const known = this.#read.get(task) ?? NOTHING_READ;
    const newer: { seq: number; entry: ThreadEntry }[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.#page(task, cursor);
      const fresh = page.checkpoints.filter(({ metadata }) => metadata.seq > known.seq);
      for (const checkpoint of fresh) {
        const entry = entryOf(checkpoint, task);
        if (entry !== undefined) newer.push({ seq: checkpoint.metadata.seq, entry });
      }
      cursor = fresh.length === page.checkpoints.length ? page.cursor : undefined;
    } while (cursor !== undefined);
    newer.sort((a, b) => a.seq - b.seq);
    const current = this.#read.get(task) ?? known;
    // Another read may have finished in the meantime.
    if (current.seq === known.seq && newer.length > 0)
      this.#read.set(task, {
        seq: newer.at(-1)!.seq,
        entries: [...known.entries, ...newer.map(({ entry }) => entry)],
      });
    const all = [...known.entries, ...newer.map(({ entry }) => entry)];
    return all.slice(all.findLastIndex(({ kind }) => kind === "deletion") + 1);
  }

  /** The tasks of all threads. Needs the rights of an orchestrator. */
  async tasks(): Promise<string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.#fleet.admin.tasks({ limit: PAGE, cursor });
      found.push(
        ...page.tasks.map(({ task_id }) => task_id).filter((task) => task.startsWith(THREAD_PREFIX)),
      );
      cursor = page.cursor;
    } while (cursor !== undefined);
    return found;
  }

  /** Releases every thread that was taken, so that another saver takes it. One that another agent has taken is that agent's. */
  async release(): Promise<void> {
    const owned = [...this.#owned.values()];
    this.#owned.clear();
    const taken = await Promise.allSettled(owned);
    const handles = taken.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const released = await Promise.allSettled(handles.map((handle) => handle.release(this.#call)));
    const failure = released.find((one) => one.status === "rejected" && !isFenced(one.reason));
    if (failure?.status === "rejected") throw failure.reason;
  }

  get #call(): { readonly deadlineMs?: number | undefined } {
    const { deadlineMs } = this.#options;
    return deadlineMs === undefined ? {} : { deadlineMs };
  }

  async #page(task: string, cursor: string | undefined) {
    try {
      return await this.#fleet.getCheckpointHistory(task, { ...this.#call, limit: PAGE, cursor });
    } catch (error) {
      if (error instanceof FleetError && error.code === "NOT_FOUND") return { checkpoints: [], corrupt: [] };
      throw error;
    }
  }

  #ownedTask(task: string): Promise<TaskHandle> {
    let owned = this.#owned.get(task);
    if (owned === undefined) {
      owned = this.#take(task);
      this.#owned.set(task, owned);
      owned.catch(() => this.#owned.delete(task));
    }
    return owned;
  }

  async #take(task: string): Promise<TaskHandle> {
    const head = await this.#fleet.getTask(task, this.#call);
    const owner = head?.owner ?? null;
    if (owner !== null && owner !== this.#fleet.agentId && !this.#options.takeOver)
      throw new FleetError(
        "CONFLICT",
        "another agent owns the thread; a saver with takeOver takes it from that agent",
        {
          details: { task_id: task, owner },
        },
      );
    return this.#fleet.takeTask(task, { ...this.#call, expectedFence: head?.fence ?? 0 });
  }
}

const isFenced = (error: unknown): boolean => error instanceof FleetError && error.code === "FENCED";

/** undefined: another agent wrote something else into the task, or the entry of another thread. */
function entryOf({ execution_state: state }: Checkpoint, task: string): ThreadEntry | undefined {
  const { success, data } = threadEntrySchema.safeParse((state as { langgraph?: unknown }).langgraph);
  return success && threadTask(data.thread_id) === task ? data : undefined;
}
