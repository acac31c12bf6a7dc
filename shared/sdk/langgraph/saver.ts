/** A checkpoint saver for LangGraph that stores in the fleet: a superseded writer is refused, and every step is hashed and audited. */
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  BaseCheckpointSaver,
  type ChannelVersions,
  type CheckpointListOptions,
  type CheckpointMetadata,
  type CheckpointPendingWrite,
  type CheckpointTuple,
  compareWritesSortKeys,
  copyCheckpoint,
  type Checkpoint as GraphCheckpoint,
  getCheckpointId,
  maxChannelVersion,
  type PendingWrite,
  type SerializerProtocol,
  TASKS,
  WRITES_IDX_MAP,
  writesSortKey,
} from "@langchain/langgraph-checkpoint";
import { invalid } from "../../protocol/errors.ts";
import type {
  StoredCheckpoint,
  StoredValue,
  StoredWrites,
  ThreadEntry,
} from "../../protocol/langgraph-entry.ts";
import type { FleetClient } from "../client/client.ts";
import type { RedactionMode } from "../redaction/secret-settings.ts";
import { ThreadLog, threadTask } from "./thread-log.ts";

export interface FleetSaverOptions {
  /** The agent type of the task of each thread. Default `implementation`. */
  readonly agentType?: string;
  /** Take threads that another agent owns: that agent's saver can no longer write. Default false. */
  readonly takeOver?: boolean;
  /** Remove secrets from the values: a graph that continues finds `[redacted: …]` in their place. Default: as the client does for all commands. */
  readonly redaction?: RedactionMode;
  readonly serde?: SerializerProtocol;
}

/** The types that the serializer of LangGraph writes. Others could name code of another serializer. */
const TYPES = new Set(["json", "bytes"]);

interface Address {
  readonly thread: string;
  readonly ns: string;
  readonly id: string | undefined;
}

/**
 * One saver is one writer, under the agent id of its client. It takes a thread with its first write; a thread of another agent is refused
 * (CONFLICT), unless `takeOver`. The saver from which a thread was taken gets FENCED. Values of one step must fit into a checkpoint of
 * the fleet, 1,000,000 bytes.
 */
export class FleetSaver extends BaseCheckpointSaver {
  readonly #log: ThreadLog;

  constructor(
    fleet: FleetClient,
    { agentType = "implementation", takeOver = false, redaction, serde }: FleetSaverOptions = {},
  ) {
    super(serde);
    this.#log = new ThreadLog(fleet, { agentType, takeOver, redaction });
  }

  async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    if (config.configurable?.thread_id === undefined) return undefined;
    const { thread, ns, id } = addressOf(config);
    const entries = await this.#log.entries(threadTask(thread));
    const found = checkpointsOf(entries)
      .filter((one) => one.ns === ns && (id === undefined || one.id === id))
      .sort(newestFirst)[0];
    return found && this.#tuple(found, entries);
  }

  /** Newest first. Without a thread, those of all threads, which needs the rights of an orchestrator. */
  async *list(config: RunnableConfig, options: CheckpointListOptions = {}): AsyncGenerator<CheckpointTuple> {
    const { before, filter, limit } = options;
    const { thread_id, checkpoint_ns, checkpoint_id } = config.configurable ?? {};
    const tasks = thread_id === undefined ? await this.#log.tasks() : [threadTask(addressOf(config).thread)];
    const beforeId = before && getCheckpointId(before);
    let left = limit ?? Number.POSITIVE_INFINITY;
    for (const task of tasks) {
      const entries = await this.#log.entries(task);
      for (const one of checkpointsOf(entries).sort(newestFirst)) {
        if (left <= 0) return;
        if (checkpoint_ns !== undefined && one.ns !== checkpoint_ns) continue;
        if (checkpoint_id !== undefined && one.id !== checkpoint_id) continue;
        if (beforeId && one.id >= beforeId) continue;
        const tuple = await this.#tuple(one, entries);
        if (!matches(tuple.metadata, filter)) continue;
        left -= 1;
        yield tuple;
      }
    }
  }

  async put(
    config: RunnableConfig,
    checkpoint: GraphCheckpoint,
    metadata: CheckpointMetadata,
    newVersions: ChannelVersions = checkpoint.channel_versions,
  ): Promise<RunnableConfig> {
    const { thread, ns, id: parent } = addressOf(config);
    // Serialised first: the graph changes its values while the entry is written.
    const changed = Object.entries(newVersions).filter(([channel]) =>
      Object.hasOwn(checkpoint.channel_values, channel),
    );
    const [stored, meta, ...dumped] = await Promise.all([
      this.#dump({ ...copyCheckpoint(checkpoint), channel_values: {} }),
      this.#dump(metadata),
      ...changed.map(([channel]) => this.#dump(checkpoint.channel_values[channel])),
    ]);
    const values = Object.fromEntries(
      changed.map(([channel, version], i) => [channel, [version, dumped[i]!] as const]),
    );
    await this.#log.append({
      ...{ kind: "checkpoint", thread_id: thread, ns, id: textOf("checkpoint.id", checkpoint.id) },
      ...{ parent_id: parent ?? null, checkpoint: stored, values, metadata: meta },
    });
    return configOf(thread, ns, checkpoint.id);
  }

  async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    taskId: string,
    taskPath = "",
  ): Promise<void> {
    const { thread, ns, id } = addressOf(config);
    if (id === undefined) throw invalid("configurable.checkpoint_id", "the checkpoint of the writes");
    if (writes.length === 0) return;
    const stored = await Promise.all(
      writes.map(async ([channel, value], idx) => ({
        idx: WRITES_IDX_MAP[channel] ?? idx,
        channel,
        value: await this.#dump(value),
      })),
    );
    await this.#log.append({
      ...{ kind: "writes", thread_id: thread, ns, checkpoint_id: id },
      ...{ task_id: textOf("taskId", taskId), task_path: taskPath, writes: stored },
    });
  }

  /** Hides everything that the thread has so far. The audited history stays in the fleet, as its retention says. */
  async deleteThread(threadId: string): Promise<void> {
    const thread = textOf("threadId", threadId);
    if ((await this.#log.entries(threadTask(thread))).length === 0) return;
    await this.#log.append({ kind: "deletion", thread_id: thread });
  }

  /**
   * Releases the threads of this saver, so that any other may take them. Call it when no graph runs, before the client is closed. A later
   * write takes its thread again.
   */
  release(): Promise<void> {
    return this.#log.release();
  }

  async #tuple(one: StoredCheckpoint, entries: readonly ThreadEntry[]): Promise<CheckpointTuple> {
    const { thread_id, ns, id, parent_id } = one;
    const [checkpoint, metadata] = await Promise.all([
      this.#load(one.checkpoint) as Promise<GraphCheckpoint>,
      this.#load(one.metadata) as Promise<CheckpointMetadata>,
    ]);
    await this.#addValues(checkpoint, one, entries);
    if (checkpoint.v < 4 && parent_id !== null)
      await this.#addPendingSends(checkpoint, ns, parent_id, entries);
    const pendingWrites = await Promise.all(
      writesOf(entries, ns, id).map(
        async ({ taskId, channel, value }): Promise<CheckpointPendingWrite> => [
          taskId,
          channel,
          await this.#load(value),
        ],
      ),
    );
    return {
      config: configOf(thread_id, ns, id),
      checkpoint,
      metadata,
      pendingWrites,
      ...(parent_id !== null && { parentConfig: configOf(thread_id, ns, parent_id) }),
    };
  }

  /** The values of unchanged channels are in ancestors: another branch may have the same version with another value. */
  async #addValues(
    checkpoint: GraphCheckpoint,
    one: StoredCheckpoint,
    entries: readonly ThreadEntry[],
  ): Promise<void> {
    const all = checkpointsOf(entries).filter(({ ns }) => ns === one.ns);
    const byId = new Map(all.map((stored) => [stored.id, stored]));
    const path: StoredCheckpoint[] = [];
    const passed = new Set<string>();
    for (let at: StoredCheckpoint | undefined = one; at !== undefined && !passed.has(at.id); ) {
      path.push(at);
      passed.add(at.id);
      at = at.parent_id === null ? undefined : byId.get(at.parent_id);
    }
    const loaded = await Promise.all(
      Object.entries(checkpoint.channel_versions).map(async ([channel, version]) => {
        const found = path.find(({ values }) => values[channel]?.[0] === version)?.values[channel];
        return found === undefined ? [] : [[channel, await this.#load(found[1])] as const];
      }),
    );
    checkpoint.channel_values = Object.fromEntries(loaded.flat());
  }

  /** Checkpoints of earlier versions keep the tasks that were sent as writes of their parent. */
  async #addPendingSends(
    checkpoint: GraphCheckpoint,
    ns: string,
    parent: string,
    entries: readonly ThreadEntry[],
  ): Promise<void> {
    const sends = writesOf(entries, ns, parent).filter(({ channel }) => channel === TASKS);
    checkpoint.channel_values ??= {};
    checkpoint.channel_versions ??= {};
    checkpoint.channel_values[TASKS] = await Promise.all(sends.map(({ value }) => this.#load(value)));
    const versions = Object.values(checkpoint.channel_versions);
    checkpoint.channel_versions[TASKS] =
      versions.length > 0 ? maxChannelVersion(...versions) : this.getNextVersion(undefined);
  }

  async #dump(value: unknown): Promise<StoredValue> {
    const [type, bytes] = await this.serde.dumpsTyped(value);
    return [type, Buffer.from(bytes).toString("base64")];
  }

  async #load([type, data]: StoredValue): Promise<unknown> {
    if (!TYPES.has(type)) throw invalid("type", `one of ${[...TYPES].join(", ")}`, type);
    return this.serde.loadsTyped(type, Buffer.from(data, "base64"));
  }
}

const checkpointsOf = (entries: readonly ThreadEntry[]): StoredCheckpoint[] => [
  ...new Map(
    entries.flatMap((entry) =>
      entry.kind === "checkpoint" ? [[JSON.stringify([entry.ns, entry.id]), entry] as const] : [],
    ),
  ).values(),
];

/** The ids of checkpoints grow with time, so their order is that of their making. */
const newestFirst = (a: StoredCheckpoint, b: StoredCheckpoint): number =>
  a.id < b.id ? 1 : a.id > b.id ? -1 : 0;

interface KeptWrite {
  readonly taskId: string;
  readonly taskPath: string;
  readonly idx: number;
  readonly channel: string;
  readonly value: StoredValue;
}

/** In the order in which a run applies them. Special writes replace earlier ones; of others the first one counts. */
function writesOf(entries: readonly ThreadEntry[], ns: string, id: string): KeptWrite[] {
  const kept = new Map<string, KeptWrite>();
  const sets = entries.filter(
    (entry): entry is StoredWrites =>
      entry.kind === "writes" && entry.ns === ns && entry.checkpoint_id === id,
  );
  for (const { task_id: taskId, task_path: taskPath, writes } of sets) {
    for (const write of writes) {
      const key = `${taskId} ${write.idx}`;
      if (write.idx < 0 || !kept.has(key)) kept.set(key, { taskId, taskPath, ...write });
    }
  }
  const keyOf = ({ taskPath, taskId, idx }: KeptWrite) => writesSortKey(taskPath, taskId, idx);
  return [...kept.values()].sort((a, b) => compareWritesSortKeys(keyOf(a), keyOf(b)));
}

function addressOf({ configurable }: RunnableConfig): Address {
  const { thread_id, checkpoint_ns, checkpoint_id } = configurable ?? {};
  return {
    thread: textOf("configurable.thread_id", thread_id),
    ns: checkpoint_ns === undefined ? "" : textOf("configurable.checkpoint_ns", checkpoint_ns, 0),
    id:
      checkpoint_id === undefined || checkpoint_id === ""
        ? undefined
        : textOf("configurable.checkpoint_id", checkpoint_id),
  };
}

/** Throws INVALID for anything but a text: an object could be a pattern of another store. */
function textOf(path: string, value: unknown, charsMin = 1): string {
  if (typeof value !== "string" || value.length < charsMin || value.length > 512)
    throw invalid(path, `a text of ${charsMin} to 512 characters`, value);
  return value;
}

const configOf = (thread_id: string, checkpoint_ns: string, checkpoint_id: string): RunnableConfig => ({
  configurable: { thread_id, checkpoint_ns, checkpoint_id },
});

function matches(
  metadata: CheckpointMetadata | undefined,
  filter: Record<string, unknown> | undefined,
): boolean {
  const values = (metadata ?? {}) as Record<string, unknown>;
  return Object.entries(filter ?? {}).every(
    ([name, value]) => JSON.stringify(values[name]) === JSON.stringify(value),
  );
}
