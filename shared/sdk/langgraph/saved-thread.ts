/**
 * A thread as another saver of LangGraph has stored it, and the entries that this saver would have written for the same graph. Values stay in
 * the bytes of LangGraph's serializer, so none of them is ever made an object here.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { FleetError } from "../../protocol/errors.ts";
import { groupBy } from "../../protocol/group-by.ts";
import type { StoredValue, ThreadEntry } from "../../protocol/langgraph-entry.ts";
import {
  type CheckpointRow,
  checkpointRowSchema,
  type GraphCheckpointValue,
  graphCheckpointSchema,
  graphMetadataSchema,
  type WriteRow,
  writeRowSchema,
} from "../../protocol/langgraph-rows.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { validate } from "../../protocol/validation.ts";

export interface SavedCheckpoint {
  readonly ns: string;
  readonly id: string;
  readonly parentId: string | null;
  /** Its channel values are in `values`. */
  readonly checkpoint: GraphCheckpointValue;
  readonly values: ReadonlyMap<string, StoredValue>;
  readonly metadata: StoredValue;
}

export interface SavedWrite {
  readonly ns: string;
  readonly checkpointId: string;
  readonly taskId: string;
  readonly taskPath: string;
  readonly idx: number;
  readonly channel: string;
  readonly value: StoredValue;
}

export interface SavedThread {
  readonly id: string;
  readonly checkpoints: readonly SavedCheckpoint[];
  readonly writes: readonly SavedWrite[];
}

/** A row that cannot be imported, so nothing of its thread is. */
export class ThreadFault extends Error {
  readonly row: string;
  readonly problem: string;

  constructor(row: string, problem: string) {
    super(`${row}: ${problem}`);
    this.name = "ThreadFault";
    this.row = row;
    this.problem = problem;
  }
}

/** The members of a checkpoint in the fleet around an entry. */
const AROUND_BYTES = 10_000;

const CHECKPOINT_ROW = ["checkpoint_ns", "checkpoint_id"] as const;
const WRITE_ROW = [...CHECKPOINT_ROW, "task_id", "idx"] as const;

/** Throws {@link ThreadFault}. */
export function savedCheckpoint(value: Record<string, unknown>): SavedCheckpoint {
  const label = labelOf("checkpoint", value, CHECKPOINT_ROW);
  const row: CheckpointRow = checked(label, () => validate(checkpointRowSchema, value));
  requireJson(label, row.type);
  const checkpoint = checked(`${label}, checkpoint`, () =>
    validate(graphCheckpointSchema, jsonOf(row.checkpoint)),
  );
  const metadata = bytesOf(row.metadata);
  checked(`${label}, metadata`, () => validate(graphMetadataSchema, jsonOf(metadata)));
  if (checkpoint.id !== row.checkpoint_id)
    throw new ThreadFault(label, `it holds the checkpoint ${checkpoint.id}`);
  return {
    ...{ ns: row.checkpoint_ns, id: row.checkpoint_id, parentId: row.parent_checkpoint_id, checkpoint },
    values: new Map(
      Object.entries(checkpoint.channel_values ?? {}).map(([channel, one]) => [channel, jsonValue(one)]),
    ),
    metadata: ["json", metadata.toString("base64")],
  };
}

/** Throws {@link ThreadFault}. */
export function savedWrite(value: Record<string, unknown>): SavedWrite {
  const label = labelOf("write", value, WRITE_ROW);
  const row: WriteRow = checked(label, () => validate(writeRowSchema, value));
  const { checkpoint_ns: ns, checkpoint_id: checkpointId, task_id: taskId, task_path: taskPath } = row;
  return {
    ...{ ns, checkpointId, taskId, taskPath, idx: row.idx, channel: row.channel },
    value: storedValue(label, row.type, row.value),
  };
}

/** A value in the bytes of its serializer, which are verified. Throws {@link ThreadFault}. */
export function storedValue(label: string, type: string | null, value: string | Uint8Array): StoredValue {
  const bytes = bytesOf(value);
  if (type === "bytes") return ["bytes", bytes.toString("base64")];
  requireJson(label, type);
  checked(label, () => jsonOf(bytes));
  return ["json", bytes.toString("base64")];
}

export interface EntriesOfThread {
  /** In the order of the checkpoints, the writes of each after it. */
  readonly entries: readonly ThreadEntry[];
  /** Writes of checkpoints that were never stored. LangGraph never reads them, so they are left out. */
  readonly orphans: number;
}

/** Throws {@link ThreadFault} for an entry that is too large for a checkpoint of the fleet. */
export function entriesOf({ id: thread_id, checkpoints, writes }: SavedThread): EntriesOfThread {
  const byId = new Map(checkpoints.map((one) => [keyOf(one.ns, one.id), one]));
  const sets = groupBy(writes, ({ ns, checkpointId }) => keyOf(ns, checkpointId));
  const entries = [...byId].sort(([, a], [, b]) => inOrder(a.id, b.id) || inOrder(a.ns, b.ns));
  return {
    entries: entries.flatMap(([key, one]) => [
      checkpointEntry(
        thread_id,
        one,
        one.parentId === null ? undefined : byId.get(keyOf(one.ns, one.parentId)),
      ),
      ...writeEntries(thread_id, sets.get(key) ?? []),
    ]),
    orphans: [...sets].reduce((sum, [key, { length }]) => (byId.has(key) ? sum : sum + length), 0),
  };
}

function checkpointEntry(thread_id: string, one: SavedCheckpoint, parent?: SavedCheckpoint): ThreadEntry {
  const { ns, id, parentId: parent_id, checkpoint, metadata } = one;
  const before = parent?.checkpoint.channel_versions ?? {};
  const changed = Object.entries(checkpoint.channel_versions).flatMap(([channel, version]) => {
    const value = one.values.get(channel);
    if (value === undefined) return [];
    // Two branches may have made the same version, so the value is compared too.
    const isKept = before[channel] === version && parent?.values.get(channel)?.[1] === value[1];
    return isKept ? [] : [[channel, [version, value] as const] as const];
  });
  return requireSize({
    ...{ kind: "checkpoint", thread_id, ns, id, parent_id, metadata },
    checkpoint: jsonValue({ ...checkpoint, channel_values: {} }),
    values: Object.fromEntries(changed),
  });
}

function writeEntries(thread_id: string, writes: readonly SavedWrite[]): ThreadEntry[] {
  // A task writes its results at once, and its special writes, such as an error, one by one.
  const sets = groupBy(writes, ({ taskPath, taskId, idx }) =>
    keyOf(taskPath, taskId, String(Math.min(idx, 0))),
  );
  return [...sets.values()]
    .sort(([a], [b]) => inOrder(a!.taskPath, b!.taskPath) || inOrder(a!.taskId, b!.taskId))
    .map((set) => {
      const { ns, checkpointId: checkpoint_id, taskId: task_id, taskPath: task_path } = set[0]!;
      const sorted = set.toSorted((a, b) => a.idx - b.idx);
      return requireSize({
        ...{ kind: "writes", thread_id, ns, checkpoint_id, task_id, task_path },
        writes: sorted.map(({ idx, channel, value }) => ({ idx, channel, value })),
      });
    });
}

function requireSize(entry: ThreadEntry): ThreadEntry {
  const bytes = Buffer.byteLength(canonicalText(entry)) + AROUND_BYTES;
  if (bytes <= LIMITS.checkpoint_bytes_max) return entry;
  const label =
    entry.kind === "writes"
      ? labelOf("write", { ...entry, checkpoint_ns: entry.ns }, WRITE_ROW)
      : labelOf("checkpoint", { ...entry, checkpoint_id: (entry as { id?: string }).id }, CHECKPOINT_ROW);
  throw new ThreadFault(
    label,
    `what it changes has ${bytes} bytes, and a checkpoint of the fleet has at most ${LIMITS.checkpoint_bytes_max}`,
  );
}

const keyOf = (...names: readonly string[]): string => JSON.stringify(names);
const inOrder = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function labelOf(kind: string, row: Record<string, unknown>, names: readonly string[]): string {
  const parts = names.flatMap((name) => {
    const value = row[name];
    return value === undefined || value === "" ? [] : [`${name} ${String(value)}`];
  });
  return `${kind} row with ${parts.join(", ")}`;
}

function requireJson(label: string, type: string | null): void {
  if (type === null || type === "json") return;
  throw new ThreadFault(label, `the type ${JSON.stringify(type)} is none of json, bytes`);
}

const bytesOf = (value: string | Uint8Array): Buffer =>
  typeof value === "string" ? Buffer.from(value) : Buffer.from(value.buffer, value.byteOffset, value.length);

const jsonOf = (value: string | Uint8Array): unknown =>
  JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytesOf(value)));

const jsonValue = (value: unknown): StoredValue => [
  "json",
  Buffer.from(JSON.stringify(value)).toString("base64"),
];

function checked<T>(label: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof FleetError) {
      const [field] = error.fields ?? [];
      const problem =
        field === undefined
          ? error.message
          : `${field.path}: expected ${field.expected}, and not ${field.got}`;
      throw new ThreadFault(label, problem);
    }
    if (error instanceof SyntaxError || error instanceof TypeError)
      throw new ThreadFault(label, "the bytes are no JSON");
    throw error;
  }
}
