// Writes the tables of LangGraph's SqliteSaver with LangGraph's serializer, in the statements of `@langchain/langgraph-checkpoint-sqlite`
// 1.0.4. That package itself needs better-sqlite3, which has no build for the pinned Node.

import { DatabaseSync } from "node:sqlite";
import type { RunnableConfig } from "@langchain/core/runnables";
import {
  type CheckpointMetadata,
  copyCheckpoint,
  type Checkpoint as GraphCheckpoint,
  MemorySaver,
  type PendingWrite,
  WRITES_IDX_MAP,
} from "@langchain/langgraph-checkpoint";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS checkpoints (
  thread_id TEXT NOT NULL,
  checkpoint_ns TEXT NOT NULL DEFAULT '',
  checkpoint_id TEXT NOT NULL,
  parent_checkpoint_id TEXT,
  type TEXT,
  checkpoint BLOB,
  metadata BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
  thread_id TEXT NOT NULL,
  checkpoint_ns TEXT NOT NULL DEFAULT '',
  checkpoint_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  idx INTEGER NOT NULL,
  channel TEXT NOT NULL,
  type TEXT,
  value BLOB,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);`;

/** A graph reads from the memory of the saver, and everything it writes is in the file too. */
export class SqliteFileSaver extends MemorySaver {
  readonly database: DatabaseSync;

  constructor(path: string) {
    super();
    this.database = new DatabaseSync(path);
    this.database.exec("PRAGMA journal_mode=WAL");
    this.database.exec(SCHEMA);
  }

  override async put(
    config: RunnableConfig,
    checkpoint: GraphCheckpoint,
    metadata: CheckpointMetadata,
  ): Promise<RunnableConfig> {
    const { thread_id, checkpoint_ns = "", checkpoint_id = null } = config.configurable ?? {};
    const [[type, bytes], [, meta]] = await Promise.all([
      this.serde.dumpsTyped(copyCheckpoint(checkpoint)),
      this.serde.dumpsTyped(metadata),
    ]);
    this.database
      .prepare("INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)")
      .run(thread_id, checkpoint_ns, checkpoint.id, checkpoint_id, type, bytes, meta);
    return super.put(config, checkpoint, metadata);
  }

  override async putWrites(config: RunnableConfig, writes: PendingWrite[], taskId: string): Promise<void> {
    const { thread_id, checkpoint_ns = "", checkpoint_id } = config.configurable ?? {};
    const isSpecial = writes.every(([channel]) => channel in WRITES_IDX_MAP);
    const statement = this.database.prepare(
      `INSERT OR ${isSpecial ? "REPLACE" : "IGNORE"} INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    for (const [idx, [channel, value]] of writes.entries()) {
      const [type, bytes] = await this.serde.dumpsTyped(value);
      const at = WRITES_IDX_MAP[channel] ?? idx;
      statement.run(thread_id, checkpoint_ns, checkpoint_id, taskId, at, channel, type, bytes);
    }
    return super.putWrites(config, writes, taskId);
  }
}
