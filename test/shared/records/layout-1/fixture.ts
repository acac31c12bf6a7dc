/** A store of the first layout, with tasks in every situation, and the answers of its fleet about them. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { Policies } from "../../../../shared/protocol/policy.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import type { ScrubFinding } from "../../../../shared/protocol/scrub.ts";
import type { Block, Task } from "../../../../shared/protocol/task.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store } from "../../../../shared/store/store.ts";

export interface FirstTask extends Omit<Task, "blocked" | "recovery"> {
  readonly recovery:
    | (Omit<Recovery, "choice"> & {
        readonly wish: Recovery["choice"];
        readonly blocked: Pick<Block, "reason" | "details" | "at"> | null;
      })
    | null;
  readonly block: {
    readonly seq: number;
    readonly reason: Block["reason"] | null;
    readonly details: string | null;
    readonly fence: number;
  } | null;
}

interface StoredRow {
  readonly k: string;
  readonly v: string;
}

interface Answers {
  readonly ended_ms: number;
  readonly policies: Policies;
  readonly findings: readonly ScrubFinding[];
  readonly damaged: readonly string[];
  readonly expected: {
    readonly recovery_counts: Readonly<Record<string, number>>;
    readonly handoff_counts: Readonly<Record<string, number>>;
    readonly open_attempts: Readonly<Record<string, number>>;
    readonly due_recoveries: readonly string[];
    readonly due_handoffs: readonly string[];
    readonly recovering: Readonly<Record<string, readonly string[]>>;
  };
  readonly tasks: Readonly<
    Record<string, Readonly<Record<string, { description: string; head: FirstTask; open_handoff?: Handoff }>>>
  >;
  /** The rows of a scrub that had stopped inside a task. */
  readonly scrub_in_progress: readonly StoredRow[];
}

const unzipped = (name: string): string =>
  gunzipSync(readFileSync(join(import.meta.dirname, name))).toString("utf8");

export const ANSWERS = JSON.parse(unzipped("heads.json.gz")) as Answers;
const ROWS = unzipped("store.jsonl.gz")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as StoredRow);

export const TENANTS = Object.keys(ANSWERS.tasks);
export const TASKS = TENANTS.flatMap((tenant) =>
  Object.entries(ANSWERS.tasks[tenant] ?? {}).map(([task, told]) => ({ tenant, task, ...told })),
);

/** Tasks with a checkpoint that does not verify. */
export const DAMAGED: ReadonlySet<string> = new Set(ANSWERS.damaged.map((line) => line.split(" ")[0] ?? ""));

const WRITE = { label: "test", deadlineMs: 20_000, onUnknown: "safe" } as const;
const ROWS_AT_ONCE = 500;

/** A copy of the store, with a clock that begins where the first fleet's ended. */
export class StoreCopy {
  readonly store: Store;
  readonly repository: CheckpointRepository;
  now = ANSWERS.ended_ms + 60_000;
  #ids = 1_000_000;
  readonly #folder: string;

  private constructor(store: Store, folder: string, format: Awaited<ReturnType<typeof openFormat>>) {
    this.store = store;
    this.#folder = folder;
    const { policies } = ANSWERS;
    const now = () => this.now;
    this.repository = new CheckpointRepository({ store, format, now, finder: "test", policies });
  }

  static async open(
    engine: "memory" | "lmdb",
    { more = [] }: { more?: readonly StoredRow[] } = {},
  ): Promise<StoreCopy> {
    const folder = mkdtempSync(join(tmpdir(), "fleet-layout-1-"));
    const store = await openStore(engine === "memory" ? "memory:" : `lmdb:${folder}/store`);
    await load(store, [...ROWS, ...more]);
    return new StoreCopy(store, folder, await openFormat(store));
  }

  /** The id of a new command, of the present moment. */
  id(): string {
    this.#ids += 1;
    const time = this.now.toString(16).padStart(12, "0");
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${this.#ids.toString(16).padStart(12, "0")}`;
  }

  async close(): Promise<void> {
    await this.store.close({ drainMs: 5_000 });
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Writes the store into a folder, as the first fleet left it. */
export async function writeFirstStore(folder: string): Promise<void> {
  const store = await openStore(`lmdb:${folder}`);
  await load(store, ROWS);
  await store.close({ drainMs: 5_000 });
}

/** Each row in its own transaction: the commit counter of an embedded engine must pass every stamp in the rows. */
async function load(store: Store, rows: readonly StoredRow[]): Promise<void> {
  for (let n = 0; n < rows.length; n += ROWS_AT_ONCE) {
    await Promise.all(
      rows
        .slice(n, n + ROWS_AT_ONCE)
        .map(({ k, v }) =>
          store.transact(WRITE, async (tx) => tx.set(Buffer.from(k, "base64"), Buffer.from(v, "base64"))),
        ),
    );
  }
}
