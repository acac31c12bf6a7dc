// The writes of many create commands, one transaction each, for programs that measure an engine alone.

import { uuidv7 } from "uuidv7";
import { canonicalBytes } from "../../shared/integrity/canonical.ts";
import { encodeBody } from "../../shared/integrity/wire.ts";
import { CONTENT_TYPES } from "../../shared/protocol/subjects.ts";
import { openFormat } from "../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import { openStore } from "../../shared/store/open.ts";
import { send } from "../harness/records/records.ts";
import { recordingStore, type Write } from "./recorded-writes.ts";
import { createWorkload } from "./workload.ts";

/** The first checkpoint of a task needs fewer writes than later ones. */
const FIRST_STEP = 1;
/** The number of commands that are recorded concurrently. */
const CONCURRENCY = 100;

/** The total size of keys and values, in bytes. */
export function bytesOf(transactions: readonly Write[][]): number {
  return transactions.flat().reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
}

/** Records `rounds` checkpoints of each agent; returns the transactions, and the sizes of one command and its parts in bytes. */
export async function recordCreates(agents: number, rounds: number) {
  const memory = await openStore("memory:");
  const format = await openFormat(memory);
  const { store, take } = recordingStore(memory);
  const repository = new CheckpointRepository({ store, format, now: Date.now, finder: "bench" });
  const workload = createWorkload();
  const by = (agent: number) => ({ agent: workload.agentId(agent), task: workload.taskId(agent) });
  const round = async (step: number) => {
    for (let first = 0; first < agents; first += CONCURRENCY) {
      const some = Array.from({ length: Math.min(CONCURRENCY, agents - first) }, (_, i) => first + i);
      await Promise.all(
        some.map((agent) =>
          send(repository, "create", { checkpoint: workload.checkpoint(agent, step) }, by(agent)),
        ),
      );
    }
  };
  await round(0);
  take();
  for (let step = FIRST_STEP; step <= rounds; step += 1) await round(step);
  const transactions = take();

  const request = { command_id: uuidv7(), checkpoint: workload.checkpoint(0, FIRST_STEP) };
  const answer = await send(repository, "create", { checkpoint: request.checkpoint }, by(agents));
  const checkpoint = await repository.get("default", answer.checkpoint_id);
  await memory.close({ drainMs: 1_000 });
  const size = (value: unknown) => encodeBody(value, CONTENT_TYPES.json).length;
  const { hash: _hash, ...compliance } = checkpoint.compliance;
  const sizes = {
    canonical: canonicalBytes({ ...checkpoint, compliance }).length,
    createRequest: size(request),
    createAnswer: size(answer),
    getRequest: size({ checkpoint_id: answer.checkpoint_id }),
    getAnswer: size({ status: "ok", result: { checkpoint } }),
  };
  return { transactions, sizes };
}
