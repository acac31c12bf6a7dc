// The writes of many create commands, each as one transaction, for programs that measure what an engine alone does with them.

import { uuidv7 } from "uuidv7";
import { canonicalBytes } from "../../shared/integrity/canonical.ts";
import { encodeBody } from "../../shared/integrity/wire.ts";
import { CONTENT_TYPES } from "../../shared/protocol/subjects.ts";
import { openFormat } from "../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import { openStore } from "../../shared/store/open.ts";
import { send } from "../harness/records/records.ts";
import { recording, type Write } from "./recorded-writes.ts";
import { createWorkload } from "./workload.ts";

/** For the first checkpoint of a task less is written than for those that follow. */
const FIRST_STEP = 1;
/** Commands that are recorded at once. */
const AT_ONCE = 100;

/** Bytes of keys and values. */
export function bytesOf(transactions: readonly Write[][]): number {
  return transactions.flat().reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
}

/** `rounds` checkpoints of each agent, and how many bytes such a command and its parts have. */
export async function recordCreates(agents: number, rounds: number) {
  const memory = await openStore("memory:");
  const format = await openFormat(memory);
  const { store, take } = recording(memory);
  const repository = new CheckpointRepository({ store, format, now: Date.now, finder: "bench" });
  const workload = createWorkload();
  const at = (agent: number) => ({ agent: workload.agentId(agent), task: workload.taskId(agent) });
  const round = async (step: number) => {
    for (let first = 0; first < agents; first += AT_ONCE) {
      const some = Array.from({ length: Math.min(AT_ONCE, agents - first) }, (_, i) => first + i);
      await Promise.all(
        some.map((agent) =>
          send(repository, "create", { checkpoint: workload.checkpoint(agent, step) }, at(agent)),
        ),
      );
    }
  };
  await round(0);
  take();
  for (let step = FIRST_STEP; step <= rounds; step += 1) await round(step);
  const transactions = take();

  const request = { command_id: uuidv7(), checkpoint: workload.checkpoint(0, FIRST_STEP) };
  const answer = await send(repository, "create", { checkpoint: request.checkpoint }, at(agents));
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
