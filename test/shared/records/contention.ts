// Concurrent writers: all write to one task and change one of its checkpoints with an expected version, as
// callers do that must not overwrite each other. Each call is recorded with its times.

import { setImmediate } from "node:timers/promises";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { create, send } from "../../harness/records/records.ts";
import type { Call } from "../../harness/stores/linearizability.ts";

export interface Contention {
  readonly name: string;
  readonly task: string;
  /** The checkpoint that all of them change. */
  readonly shared: string;
  readonly writers: number;
  readonly rounds: number;
}

export interface Calls {
  /** Creates, and reads of the task's head. The place is the seq. */
  readonly seqs: Call[];
  /** Updates and reads of the shared checkpoint. The place is the version. */
  readonly versions: Call[];
  /** Updates that were refused because of their expected version. */
  conflicts: number;
  /** Commands that were refused as UNAVAILABLE and repeated. */
  refused: number;
}

/**
 * One clock for all processes of the machine. The origin of `performance` differs slightly between processes.
 */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

async function timed<T>(call: () => Promise<T>) {
  // In production a call arrives over the bus, in its own turn of the event loop, where a store may look for
  // the commits of others.
  await setImmediate();
  const invoked = now();
  const value = await call();
  return { value, span: { invoked, returned: now() } };
}

interface Writer extends Contention {
  readonly repository: CheckpointRepository;
  readonly by: string;
  readonly calls: Calls;
}

/** Repeats the call while it is refused as UNAVAILABLE, as the SDK does. */
async function withRetry<T>({ calls }: Writer, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof FleetError) || error.code !== "UNAVAILABLE") throw error;
      calls.refused += 1;
    }
  }
}

async function write(writer: Writer): Promise<void> {
  const { repository, task, by, calls } = writer;
  const made = await timed(() => withRetry(writer, () => create(repository, { task, agent: by })));
  calls.seqs.push({ ...made.span, kind: "write", place: made.value.seq, by });
  const head = await timed(() => repository.task("default", task));
  calls.seqs.push({ ...head.span, kind: "read", place: head.value.seq, by });
}

/**
 * Reads the shared checkpoint and updates it with that expected version, until no other writer came between.
 */
async function change(writer: Writer, round: number): Promise<void> {
  const { repository, task, shared, by, calls } = writer;
  for (;;) {
    const read = await timed(() => repository.get("default", shared));
    const { metadata, execution_state: state } = read.value;
    calls.versions.push({ ...read.span, kind: "read", place: metadata.version, by });
    const patch = { execution_state: { completed_items: [...state.completed_items, `${by}/${round}`] } };
    const body = { checkpoint_id: shared, patch, expected_version: metadata.version };
    try {
      const done = await timed(() =>
        withRetry(writer, () => send(repository, "update", body, { task, agent: by })),
      );
      calls.versions.push({ ...done.span, kind: "write", place: done.value.version, by });
      return;
    } catch (error) {
      if (!(error instanceof FleetError) || error.code !== "CONFLICT") throw error;
      calls.conflicts += 1;
    }
  }
}

/**
 * Runs all writers. In each round a writer creates a checkpoint and changes the shared one, on one of the
 * repositories.
 */
export async function contend(
  repositories: readonly CheckpointRepository[],
  contention: Contention,
): Promise<Calls> {
  const calls: Calls = { seqs: [], versions: [], conflicts: 0, refused: 0 };
  await Promise.all(
    Array.from({ length: contention.writers }, async (_, i) => {
      const repository = repositories[i % repositories.length] as CheckpointRepository;
      const writer: Writer = { ...contention, repository, by: `${contention.name}-${i}`, calls };
      for (let round = 0; round < contention.rounds; round += 1) {
        await write(writer);
        await change(writer, round);
      }
    }),
  );
  return calls;
}
