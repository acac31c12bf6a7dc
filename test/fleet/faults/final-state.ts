/** Reads the final state: the store directly, without a service, and the streams from their first message. */

import { DeliverPolicy, type JsMsg, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import type { TaskRecord } from "../../../shared/lifecycle/task.ts";
import type { Alert } from "../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { RemovedCheckpoint } from "../../../shared/protocol/retention.ts";
import { HEADERS, STREAMS } from "../../../shared/protocol/subjects.ts";
import { readAudit } from "../../../shared/records/audit/audit.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import { isOffer, readOutbox, readTransitions } from "../../../shared/records/outbox/outbox.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { decodeHead } from "../../../shared/records/task/head.ts";
import { viewOf } from "../../../shared/records/task/task-view.ts";
import { SigningKeyFile } from "../../../shared/service-host/signing/signing-key-file.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Reader, Store } from "../../../shared/store/store.ts";
import { scrub } from "../../harness/records/scrub.ts";
import { storeSignedBy } from "../../harness/records/signed.ts";
import {
  type DeadLetter,
  type Entry,
  type ExitRecord,
  type FinalState,
  type FinalTask,
  versionName,
} from "./checker/evidence.ts";
import type { BusServers } from "./environment/bus/bus-servers.ts";

const READ = { label: "final_state", deadlineMs: 60_000 } as const;
const TASKS_MAX = 10_000;
const OUTBOX_MAX = 1_000;
const CONCURRENCY = 32;

/** Reads the store; no service may have it open. The acts of the scrub are signed with the key of the services. */
export async function readStore(url: string, signingKey: string): Promise<StoredState> {
  const store = storeSignedBy(await openStore(url), new SigningKeyFile(signingKey).read());
  try {
    return await readStoredState(store);
  } finally {
    await store.close({ drainMs: 5_000 });
  }
}

export type StoredState = Omit<FinalState, "events" | "alerts" | "dead" | "exits"> & {
  readonly unpublished: FleetEvent[];
};

/** Reads an open store, which the scrub changes at the end. */
export async function readStoredState(store: Store): Promise<StoredState> {
  const repository = new CheckpointRepository({
    store,
    format: await openFormat(store),
    finder: "faults",
    now: Date.now,
  });
  const keys = tenantKeys(DEFAULT_TENANT);
  const { rows } = await store.read(READ, (reader) => reader.getRange(keys.tasks(), { limit: TASKS_MAX }));
  const tasks = new Map<string, FinalTask>();
  for (const { value } of rows) {
    const record = decodeHead(value);
    tasks.set(record.task_id, await readTask(store, repository, record));
  }
  const handoffs = await readHandoffs(repository);
  const transitions = await store.read(READ, readTransitions);
  const unpublished = await store.read(READ, readUnpublished);
  // Last, because the scrub writes its findings into the store.
  const { findings } = await scrub({ store, repository }, { quarantines: false });
  return { tasks, handoffs, transitions, unpublished, findings };
}

/** The events in the outbox: those of transitions that services make while they stop. Their next start publishes them. */
async function readUnpublished(reader: Reader): Promise<FleetEvent[]> {
  const events: FleetEvent[] = [];
  for (let partition = 0; partition < LIMITS.outbox_partition_count; partition += 1) {
    const { entries, more } = await readOutbox(reader, partition, OUTBOX_MAX);
    if (more) throw new Error(`partition ${partition} of the outbox has more than ${OUTBOX_MAX} entries`);
    for (const entry of entries) if (!isOffer(entry)) events.push(entry.event as FleetEvent);
  }
  return events;
}

async function readTask(
  store: Store,
  repository: CheckpointRepository,
  record: TaskRecord,
): Promise<FinalTask> {
  const task = record.task_id;
  const records = await store.read(READ, (reader) => readTrail(reader, task));
  const entries = records.map(({ entry }) => JSON.parse(entry) as Entry);
  const current: { checkpoint_id: string; version: number }[] = [];
  const removed: RemovedCheckpoint[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await repository.history(DEFAULT_TENANT, {
      task_id: task,
      limit: LIMITS.history_limit_max,
      order: "oldest",
      cursor,
    });
    current.push(
      ...page.checkpoints.map(({ metadata }) => ({
        checkpoint_id: metadata.checkpoint_id,
        version: metadata.version,
      })),
    );
    removed.push(...(page.removed ?? []));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  const hashes = await readHashes(repository, entries);
  return { task, head: viewOf(record), record, records, entries, current, removed, hashes };
}

async function readHandoffs(repository: CheckpointRepository): Promise<Map<string, Handoff>> {
  const found = new Map<string, Handoff>();
  for (let cursor: string | undefined; ; ) {
    const query = { limit: LIMITS.handoffs_limit_max, cursor };
    const page = await repository.handoffs(DEFAULT_TENANT, query);
    if (page.corrupt.length > 0) throw new Error(`corrupt handoffs: ${page.corrupt.join(", ")}`);
    for (const handoff of page.handoffs) found.set(handoff.handoff_id, handoff);
    cursor = page.cursor;
    if (cursor === undefined) return found;
  }
}

async function readTrail(reader: Reader, task: string): Promise<{ seq: number; entry: string }[]> {
  const records: { seq: number; entry: string }[] = [];
  for (let more = true, from = 1; more; ) {
    const page = await readAudit(reader, tenantKeys(DEFAULT_TENANT), task, from, LIMITS.audit_limit_max);
    records.push(...page.entries.map(({ seq, entry }) => ({ seq, entry })));
    more = page.more;
    from = (page.entries.at(-1)?.seq ?? 0) + 1;
  }
  return records;
}

/** Reads each version through the repository, which verifies its hash. The result has no corrupt and no missing versions. */
async function readHashes(
  repository: CheckpointRepository,
  entries: readonly Entry[],
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>();
  const waiting = entries.filter(({ checkpoint_id, version }) => checkpoint_id !== null && version !== null);
  const readSome = async (): Promise<void> => {
    for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
      const { checkpoint_id: id, version } = entry;
      const found = await repository.get(DEFAULT_TENANT, id!, version!).catch(() => null);
      if (found !== null) hashes.set(versionName(id, version), found.compliance.hash);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, readSome));
  return hashes;
}

/** Reads the events, alerts, dead letters and exit reports, the oldest first, including duplicates. */
export async function readStreams(
  bus: BusServers,
): Promise<Pick<FinalState, "events" | "alerts" | "dead" | "exits">> {
  const connection = await connect({ ...bus.connectionOptions, timeout: 10_000 });
  try {
    return await readStreamsOver(connection);
  } finally {
    await connection.close();
  }
}

export async function readStreamsOver(
  connection: NatsConnection,
): Promise<Pick<FinalState, "events" | "alerts" | "dead" | "exits">> {
  const events: FleetEvent[] = [];
  await eachMessage(connection, STREAMS.events, (message) => events.push(message.json<FleetEvent>()));
  const alerts: Alert[] = [];
  await eachMessage(connection, STREAMS.alerts, (message) => alerts.push(message.json<Alert>()));
  const dead: DeadLetter[] = [];
  await eachMessage(connection, STREAMS.dead, ({ headers, subject, time }) => {
    const reason = subject.split(".").at(-2)!;
    dead.push({ command_id: headers?.get(HEADERS.deadCommand) || null, reason, at: time.getTime() });
  });
  const exits: ExitRecord[] = [];
  await eachMessage(connection, STREAMS.exits, (message) => {
    const { agent_id: agent, task_id: task, fence, class: failureClass } = message.json<ExitReport>();
    exits.push({ agent, task, fence, class: failureClass, at: message.time.getTime() });
  });
  return { events, alerts, dead, exits };
}

async function eachMessage(
  connection: NatsConnection,
  stream: string,
  onMessage: (message: JsMsg) => void,
): Promise<void> {
  const { state } = await (await jetstreamManager(connection)).streams.info(stream);
  if (state.messages === 0) return;
  const consumer = await jetstream(connection).consumers.get(stream, { deliver_policy: DeliverPolicy.All });
  for await (const message of await consumer.consume({ max_messages: 1_000 })) {
    onMessage(message);
    if (message.seq >= state.last_seq) return;
  }
}
