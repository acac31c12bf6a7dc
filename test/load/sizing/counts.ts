// The cost of each command in rows, bytes, transactions and messages, counted on a real fleet. The counts do not depend on the speed
// of the machine: commands follow one another, and each waits until its events are published and its checkpoint is indexed.

import { uuidv7 } from "uuidv7";
import type { CommandCost, Counts } from "../../../deploy/sizing/figures.ts";
import type { CheckpointInput } from "../../../shared/protocol/checkpoint.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { FleetClient, TaskHandle } from "../../../shared/sdk/sdk.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { createWorkload } from "../workload.ts";
import { type CountedFleet, openCountedFleet, type Snapshot } from "./counted-fleet.ts";
import { countMemory } from "./memory.ts";

const TYPE = "qa";
/** Work of many commands at once, or of a timer: their number depends on time, so the formulas count their rows and not their transactions. */
const SHARED = new Set([
  "acquire_lease",
  "release_lease",
  "renew_leases",
  "watched_key",
  "read_outbox",
  "clear_outbox",
  "outbox_backlog",
  "plan_index",
  "write_index",
  "write_index_prune",
  "plan_index_prune",
  "index_lag",
  "handoff_counts",
  "recovery_counts",
  "status",
  "policy_change",
  "write_log",
  "mark_log",
]);
/** Rows whose number does not grow with the commands, and the tiles of the audit log, which hundreds of entries share. */
const FIXED = new Set(["bell", "count", "lease", "meta", "log", "log_due", "log_tiles"]);
/** The body of the larger checkpoint of the measurement, beside the usual one of 4 KB. */
const LARGE_CHARS = 30_000;
/** A repeated command has one effect and no second transaction that writes, so a slow machine changes no count. */
const PATIENT = { deadlineMs: 60_000 } as const;
const QUEUED = 4;
/** Always the same work, because a recovery is settled by the progress in it. */
const FIRST_STEP = 1;
const NEXT_STEP = 101;
/** More repetitions give the same counts. */
export const REPETITIONS = 4;

const workload = createWorkload(11);

/** A checkpoint of about 4 KB. */
const small = (step: number): CheckpointInput => workload.checkpoint(1, step);

function large(step: number): CheckpointInput {
  const input = workload.checkpoint(2, step);
  const { execution_state } = input;
  const text = Array.from({ length: 200 }, (_, i) => workload.checkpoint(3 + i, step))
    .map(({ execution_state: state }) => state.current_step?.partial_work ?? "")
    .join(" ")
    .slice(0, LARGE_CHARS);
  return {
    ...input,
    execution_state: { ...execution_state, current_step: { description: "large", partial_work: text } },
  };
}

const bytesOf = (input: CheckpointInput): number => JSON.stringify(input).length;

export async function measureCounts(repetitions: number): Promise<Counts> {
  const fleet = await openCountedFleet();
  try {
    // Before there are services in this process, whose memory changes too.
    const memory = await countMemory(fleet);
    const queued = await countQueued(fleet);
    await fleet.startServices();
    await fleet.until("the queue to be empty", async () => {
      return (await fleet.stateOf(STREAMS.queue)).messages === 0;
    });
    const agent = await fleet.client("agent-0001");
    const next = await fleet.client("agent-0002");
    const heartbeat = await countHeartbeat(fleet, agent);
    const commands = await countCommands(fleet, agent, repetitions);
    const handoff = await countHandoffs(fleet, agent, next, repetitions);
    const recovery = await countRecoveries(fleet, agent, next, repetitions);
    const bodies = { create: bytesOf(small(1)), create_large: bytesOf(large(1)) };
    return { costs: { ...commands, handoff, recovery }, bodies, queued, heartbeat, memory };
  } finally {
    await fleet.close();
  }
}

/** Queued before a writer runs, so that the commands are in the stream when it is read. */
async function countQueued(fleet: CountedFleet): Promise<Counts["queued"]> {
  const before = await fleet.stateOf(STREAMS.queue);
  for (let i = 0; i < QUEUED; i += 1) {
    const body = { command_id: uuidv7(), checkpoint: small(i) };
    await fleet.bus.publishDurable(
      SUBJECTS.queue("default", "agent-0001", "task-000001", "create"),
      { body: Buffer.from(JSON.stringify(body)) },
      { messageId: body.command_id, timeoutMs: 20_000 },
    );
  }
  const after = await fleet.stateOf(STREAMS.queue);
  return { bytes: (after.bytes - before.bytes) / QUEUED };
}

async function countHeartbeat(fleet: CountedFleet, agent: FleetClient): Promise<Counts["heartbeat"]> {
  let bytes = 0;
  const stop = await fleet.bus.subscribe(SUBJECTS.everyHeartbeat, ({ subject, body }) => {
    bytes = subject.length + body.length;
  });
  const sender = agent.startHeartbeat({ agentType: TYPE, state: "working", taskId: "task-000009", fence: 1 });
  await fleet.until("a heartbeat", async () => bytes > 0);
  await sender.stop();
  await stop();
  return { bytes };
}

type Step = (n: number) => Promise<unknown>;

/** Counts what each step adds; the first repetition is not counted, because it makes the rows of the task. */
async function costOf(fleet: CountedFleet, repetitions: number, step: Step): Promise<CommandCost> {
  await step(0);
  const before = await fleet.snapshot();
  for (let n = 1; n <= repetitions; n += 1) {
    await step(n);
    await fleet.settled();
  }
  return difference(before, await fleet.snapshot(), repetitions);
}

function difference(before: Snapshot, after: Snapshot, count: number): CommandCost {
  const stored: Record<string, { rows: number; bytes: number }> = {};
  for (const [family, { rows, bytes }] of after.families) {
    if (FIXED.has(family)) continue;
    const old = before.families.get(family) ?? { rows: 0, bytes: 0 };
    if (rows > old.rows)
      stored[family] = { rows: each(rows - old.rows, count), bytes: each(bytes - old.bytes, count) };
  }
  const transactions: Record<string, { writes: number; keys: number }> = {};
  let bytesMax = 0;
  for (const [label, { writes, keys, bytes_max }] of after.labels) {
    const old = before.labels.get(label) ?? { writes: 0, keys: 0 };
    if (SHARED.has(label) || writes === old.writes) continue;
    transactions[label] = { writes: each(writes - old.writes, count), keys: each(keys - old.keys, count) };
    bytesMax = Math.max(bytesMax, bytes_max);
  }
  const messages: Record<string, { messages: number; bytes: number }> = {};
  for (const [stream, { lastSeq, bytes }] of after.streams) {
    const old = before.streams.get(stream);
    if (old !== undefined && lastSeq > old.lastSeq)
      messages[stream] = {
        messages: each(lastSeq - old.lastSeq, count),
        bytes: each(bytes - old.bytes, count),
      };
  }
  return {
    stored: sorted(stored),
    transactions: sorted(transactions),
    messages: sorted(messages),
    transaction_bytes_max: bytesMax,
  };
}

const each = (sum: number, count: number): number => Math.round((sum / count) * 100) / 100;
const sorted = <T>(record: Record<string, T>): Record<string, T> =>
  Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));

async function countCommands(
  fleet: CountedFleet,
  agent: FleetClient,
  repetitions: number,
): Promise<Pick<Counts["costs"], "take" | "create" | "create_large" | "update" | "finalize">> {
  const task = agent.task("task-000002");
  const ids: string[] = [];
  const take = await costOf(fleet, repetitions, (n) => agent.takeTask(`task-0001${n}0`, PATIENT));
  const create = await costOf(fleet, repetitions, async (n) => {
    ids.push((await task.checkpoint(small(n), PATIENT)).checkpointId);
  });
  const update = await costOf(fleet, repetitions, (n) =>
    task.update(ids[n] as string, { execution_state: { progress_percent: n } }, PATIENT),
  );
  const finalize = await costOf(fleet, repetitions, (n) =>
    task.finalize(ids[n] as string, "succeeded", PATIENT),
  );
  const largeTask = agent.task("task-000003");
  const create_large = await costOf(fleet, repetitions, (n) => largeTask.checkpoint(large(n), PATIENT));
  return { take, create, create_large, update, finalize };
}

/** From the request of a handoff, with its checkpoint, to the first checkpoint of the next agent. */
function countHandoffs(
  fleet: CountedFleet,
  agent: FleetClient,
  next: FleetClient,
  repetitions: number,
): Promise<CommandCost> {
  return costOf(fleet, repetitions, async (n) => {
    const task = await agent.takeTask(`task-0002${n}0`, PATIENT);
    const { execution_state, ...rest } = small(FIRST_STEP);
    const checkpoint = { ...rest, execution_state: { ...execution_state, phase: "handoff" } as const };
    await task.checkpoint(checkpoint, { ...PATIENT, handoff: { toAgentType: TYPE } });
    await accepted(fleet, next, task.id);
  });
}

/** From the exit report of an agent to the first checkpoint of the next one; the failed agent wrote one checkpoint. */
function countRecoveries(
  fleet: CountedFleet,
  agent: FleetClient,
  next: FleetClient,
  repetitions: number,
): Promise<CommandCost> {
  return costOf(fleet, repetitions, async (n) => {
    const task = await agent.takeTask(`task-0003${n}0`, PATIENT);
    const metadata = { ...small(FIRST_STEP).metadata, agent_type: TYPE };
    await task.checkpoint({ ...small(FIRST_STEP), metadata }, PATIENT);
    await agent.reportExit(reportOf(agent, task));
    await accepted(fleet, next, task.id);
  });
}

function reportOf({ agentId }: FleetClient, { id, fence }: TaskHandle): ExitReport {
  return exitReport({
    report_id: uuidv7(),
    agent_id: agentId,
    task_id: id,
    fence: fence ?? 0,
    agent_type: TYPE,
  });
}

async function accepted(fleet: CountedFleet, next: FleetClient, taskId: string): Promise<void> {
  let isDone = false;
  const stop = await next.onOffer(TYPE, async (offer) => {
    const { task } = await offer.acknowledge();
    const metadata = { agent_type: TYPE, trigger: { reason: "reassignment" } } as const;
    await task.checkpoint({ ...small(NEXT_STEP), metadata }, PATIENT);
    isDone = task.id === taskId;
  });
  await fleet.until(`the next agent of ${taskId}`, async () => isDone);
  await stop();
}
