// Writers that want the same at once: all of them write to one task, and change one checkpoint of it under an expected version, as
// callers do that must not overwrite each other. What each call was and when is recorded.

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
  /** Creates and reads of the task's head; the place is the seq. */
  readonly seqs: Call[];
  /** Updates and reads of the shared checkpoint; the place is the version. */
  readonly versions: Call[];
  /** Updates that met another version than they expected. */
  conflicts: number;
  /** Commands that were asked to come again. */
  refused: number;
}

/** One clock for all processes of the machine; that of `performance` begins anew, and a little off, in each. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6;

async function timed<T>(call: () => Promise<T>) {
  // A call comes over the bus, and so in a turn of the event loop of its own, at whose begin a store may look for others' commits.
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

/** Asks again as long as nothing happened and a retry can help, as the SDK does. */
async function insist<T>({ calls }: Writer, call: () => Promise<T>): Promise<T> {
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
  const made = await timed(() => insist(writer, () => create(repository, { task, agent: by })));
  calls.seqs.push({ ...made.span, kind: "write", place: made.value.seq, by });
  const head = await timed(() => repository.task("default", task));
  calls.seqs.push({ ...head.span, kind: "read", place: head.value.seq, by });
}

/** Reads the shared checkpoint and writes it under the version that it read, until nobody came between. */
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
        insist(writer, () => send(repository, "update", body, { task, agent: by })),
      );
      calls.versions.push({ ...done.span, kind: "write", place: done.value.version, by });
      return;
    } catch (error) {
      if (!(error instanceof FleetError) || error.code !== "CONFLICT") throw error;
      calls.conflicts += 1;
    }
  }
}

/** Every writer: a create and a change of the shared checkpoint, round by round, on one of the repositories. */
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
