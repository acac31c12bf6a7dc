// The threads in a file of LangGraph's SqliteSaver. The file is only read, all of it at one moment.

import { statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { CHECKPOINT_COLUMNS } from "../../../../shared/protocol/langgraph-rows.ts";
import {
  type SavedThread,
  savedCheckpoint,
  savedWrite,
  ThreadFault,
} from "../../../../shared/sdk/langgraph/saved-thread.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { ThreadSource } from "./thread-source.ts";

const SQLITE_CORRUPT = 11;
const TABLES: Readonly<Record<string, readonly string[]>> = {
  checkpoints: CHECKPOINT_COLUMNS,
  writes: ["thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "value"],
};

/** Throws UsageError, CORRUPT for a file that is damaged, or INVALID for one of another program. */
export async function openSqliteThreads(path: string): Promise<ThreadSource> {
  const sqlite = await import("node:sqlite").catch(() => {
    throw new UsageError(
      `this Node (${process.version}) has no SQLite`,
      "Run the command with Node 22.13 or newer.",
    );
  });
  const before = stateOf(path);
  const database = refusing(
    path,
    () => new sqlite.DatabaseSync(locationOf(path, before), { readOnly: true }),
  );
  try {
    refusing(path, () => requireSound(path, database));
    const columns = refusing(path, () => requireTables(path, database));
    return sourceOf(path, database, columns.has("task_path"), before);
  } catch (error) {
    database.close();
    throw error;
  }
}

interface FileState {
  readonly bytes: number;
  readonly changedMs: number;
  /** Of the log of changes that are not yet in the file itself. */
  readonly logBytes: number;
}

function stateOf(path: string): FileState {
  const file = statSync(path, { throwIfNoEntry: false });
  if (file?.isFile() !== true)
    throw new UsageError(`${path} is no file`, "Name the database file of a SqliteSaver.");
  const log = statSync(`${path}-wal`, { throwIfNoEntry: false });
  return { bytes: file.size, changedMs: file.mtimeMs, logBytes: log?.size ?? 0 };
}

/** A reader of a file with a log writes index files beside it, which no program removes. Without a log nothing is written. */
function locationOf(path: string, { logBytes }: FileState): URL {
  const location = pathToFileURL(path);
  if (logBytes === 0) location.searchParams.set("immutable", "1");
  return location;
}

function requireSound(path: string, database: DatabaseSync): void {
  // All reads after the first one see the same moment.
  database.exec("BEGIN");
  const [report] = database.prepare("PRAGMA integrity_check(1)").all();
  const found = Object.values(report ?? {})[0];
  if (found !== "ok") throw damaged(path, String(found));
}

/** Returns the columns of the table of writes. */
function requireTables(path: string, database: DatabaseSync): ReadonlySet<string> {
  let columns = new Set<unknown>();
  for (const [table, needed] of Object.entries(TABLES)) {
    columns = new Set(
      database
        .prepare("SELECT name FROM pragma_table_info(?)")
        .all(table)
        .map(({ name }) => name),
    );
    const missing = needed.find((name) => !columns.has(name));
    if (missing === undefined) continue;
    throw new FleetError("INVALID", `${path} is no file of LangGraph's SqliteSaver`, {
      fields: [{ path: table, expected: `a table with the column ${missing}`, got: "none" }],
    });
  }
  return columns as ReadonlySet<string>;
}

function sourceOf(path: string, database: DatabaseSync, hasPath: boolean, before: FileState): ThreadSource {
  const names = database.prepare(
    "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY thread_id",
  );
  const checkpoints = database.prepare(
    `SELECT ${TABLES.checkpoints!.join(", ")} FROM checkpoints WHERE thread_id = ?`,
  );
  const writes = database.prepare(
    `SELECT ${TABLES.writes!.join(", ")}, ${hasPath ? "task_path" : "'' AS task_path"} FROM writes WHERE thread_id = ?`,
  );
  return {
    name: path,
    async threads() {
      return refusing(path, () => names.all().map(({ thread_id }) => String(thread_id)));
    },
    async thread(id): Promise<SavedThread> {
      return faulting(() => ({
        id,
        checkpoints: checkpoints.all(id).map(savedCheckpoint),
        writes: writes.all(id).map(savedWrite),
      }));
    },
    async requireUnchanged() {
      const now = stateOf(path);
      // A file with a log is read as it was at its first read.
      if (
        before.logBytes > 0 ||
        (now.logBytes === 0 && now.bytes === before.bytes && now.changedMs === before.changedMs)
      )
        return;
      throw new FleetError(
        "CONFLICT",
        "another program changed the file during the import; repeat the command",
        {
          details: { file: path },
        },
      );
    },
    async close() {
      database.close();
    },
  };
}

const isSqliteError = (error: unknown): error is Error =>
  (error as NodeJS.ErrnoException | undefined)?.code === "ERR_SQLITE_ERROR";

function refusing<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!isSqliteError(error)) throw error;
    if ((error as { readonly errcode?: unknown }).errcode === SQLITE_CORRUPT)
      throw damaged(path, error.message);
    throw new FleetError("INVALID", `${path} cannot be read as a database of SQLite: ${error.message}`);
  }
}

function damaged(path: string, problem: string): FleetError {
  return new FleetError("CORRUPT", "the file is damaged; nothing was imported", {
    details: { file: path, problem },
  });
}

function faulting<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (isSqliteError(error) || code === "ERR_OUT_OF_RANGE") throw new ThreadFault("a row", message);
    throw error;
  }
}
