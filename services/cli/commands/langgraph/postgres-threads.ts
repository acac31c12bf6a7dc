// The threads in a database of LangGraph's PostgresSaver. One transaction that may only read sees all of them at one moment. The password is
// in no message.

import type { Client } from "pg";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { StoredValue } from "../../../../shared/protocol/langgraph-entry.ts";
import { CHECKPOINT_COLUMNS } from "../../../../shared/protocol/langgraph-rows.ts";
import {
  type SavedCheckpoint,
  savedCheckpoint,
  savedWrite,
  storedValue,
  ThreadFault,
} from "../../../../shared/sdk/langgraph/saved-thread.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { ThreadSource } from "./thread-source.ts";

const CONNECT_MS = 10_000;

const COLUMNS: Readonly<Record<string, readonly string[]>> = {
  checkpoints: CHECKPOINT_COLUMNS,
  checkpoint_blobs: ["thread_id", "checkpoint_ns", "channel", "version", "type", "blob"],
  checkpoint_writes: [
    "thread_id",
    "checkpoint_ns",
    "checkpoint_id",
    "task_id",
    "idx",
    "channel",
    "type",
    "blob",
  ],
};

/** Throws UsageError, or INVALID for a database without the tables of LangGraph. */
export async function openPostgresThreads(
  url: string,
  schema: string,
  { deadlineMs }: { readonly deadlineMs?: number },
): Promise<ThreadSource> {
  const name = nameOf(url);
  const { default: pg } = await import("pg").catch((): never => {
    throw new UsageError("the package pg is not installed", "Run `npm install pg` beside Fleet.");
  });
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: deadlineMs ?? CONNECT_MS,
    application_name: "fleet import",
  });
  // A connection that breaks rejects the query that waits for it.
  client.on("error", () => {});
  try {
    return await unlessUnreadable(name, async () => {
      await client.connect();
      await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
      return sourceOf(client, name, schema, await requireTables(client, name, schema));
    });
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
}

/** The database without user and password. */
function nameOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !/^postgres(ql)?:$/.test(parsed.protocol))
    throw new UsageError("--postgres is no URL of a database", "Write postgres://USER@HOST/DATABASE.");
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`;
}

async function unlessUnreadable<T>(name: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof FleetError || error instanceof UsageError || error instanceof ThreadFault)
      throw error;
    const { message, code } = error as { readonly message?: string; readonly code?: string };
    const reason = message === undefined || message === "" ? (code ?? "no reason") : message;
    throw new UsageError(
      `${name} cannot be read: ${reason}`,
      "Give the URL of the database of a PostgresSaver.",
    );
  }
}

/** Returns the columns of the table of writes. */
async function requireTables(client: Client, name: string, schema: string): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ table_name: string; column_name: string }>(
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1",
    [schema],
  );
  const columnsOf = (table: string): ReadonlySet<string> =>
    new Set(rows.flatMap((row) => (row.table_name === table ? [row.column_name] : [])));
  for (const [table, needed] of Object.entries(COLUMNS)) {
    const columns = columnsOf(table);
    const missing = needed.find((column) => !columns.has(column));
    if (missing === undefined) continue;
    throw new FleetError("INVALID", `${name} has no tables of LangGraph's PostgresSaver in this schema`, {
      fields: [{ path: `${schema}.${table}`, expected: `a table with the column ${missing}`, got: "none" }],
    });
  }
  return columnsOf("checkpoint_writes");
}

function sourceOf(
  client: Client,
  name: string,
  schema: string,
  writeColumns: ReadonlySet<string>,
): ThreadSource {
  const table = (of: string): string => `"${schema.replaceAll('"', '""')}".${of}`;
  const path = writeColumns.has("task_path") ? "task_path" : "'' AS task_path";
  const rowsOf = async (text: string, values: readonly unknown[]): Promise<Record<string, unknown>[]> =>
    (await unlessUnreadable(name, () => client.query<Record<string, unknown>>(text, [...values]))).rows;
  return {
    name,
    async threads() {
      const rows = await rowsOf(
        `SELECT thread_id FROM ${table("checkpoints")} UNION SELECT thread_id FROM ${table("checkpoint_writes")} ORDER BY 1`,
        [],
      );
      return rows.map(({ thread_id }) => String(thread_id));
    },
    async thread(id) {
      const checkpoints = await rowsOf(
        `SELECT thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint::text, metadata::text FROM ${table("checkpoints")} WHERE thread_id = $1`,
        [id],
      );
      const blobs = blobsOf(
        await rowsOf(
          `SELECT checkpoint_ns, channel, version, type, blob FROM ${table("checkpoint_blobs")} WHERE thread_id = $1`,
          [id],
        ),
      );
      const writes = await rowsOf(
        `SELECT thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob AS value, ${path} FROM ${table("checkpoint_writes")} WHERE thread_id = $1`,
        [id],
      );
      return {
        id,
        checkpoints: checkpoints.map((row) => withValues(savedCheckpoint(row), blobs)),
        writes: writes.map(savedWrite),
      };
    },
    /** The transaction sees no change. */
    async requireUnchanged() {},
    async close() {
      await client.end().catch(() => {});
    },
  };
}

/** By namespace, channel and version. null: the channel is empty. */
type Blobs = ReadonlyMap<string, StoredValue | null>;

const blobKey = (...names: readonly string[]): string => JSON.stringify(names);

function blobsOf(rows: readonly Record<string, unknown>[]): Blobs {
  return new Map(
    rows.map(({ checkpoint_ns, channel, version, type, blob }) => {
      const names = [String(checkpoint_ns), String(channel), String(version)];
      const label = `blob row with channel ${channel}, version ${version}`;
      if (type === "empty") return [blobKey(...names), null];
      if (!(blob instanceof Uint8Array)) throw new ThreadFault(label, "it has no bytes");
      return [blobKey(...names), storedValue(label, String(type), blob)];
    }),
  );
}

/** The values of a checkpoint are in rows of their own, by their versions, and small ones may be in the checkpoint itself. */
function withValues(saved: SavedCheckpoint, blobs: Blobs): SavedCheckpoint {
  const values = new Map<string, StoredValue>();
  for (const [channel, version] of Object.entries(saved.checkpoint.channel_versions)) {
    const found = blobs.get(blobKey(saved.ns, channel, String(version))) ?? saved.values.get(channel);
    if (found !== undefined) values.set(channel, found);
    else if (!blobs.has(blobKey(saved.ns, channel, String(version))))
      throw new ThreadFault(
        `checkpoint row with checkpoint_id ${saved.id}`,
        `no row of checkpoint_blobs has version ${version} of its channel ${channel}`,
      );
  }
  return { ...saved, values };
}
