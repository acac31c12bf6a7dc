/**
 * Random edits of a small store over all families of keys. Each edit that changes an answer is found: by the
 * read itself, which names or refuses the damage, or by the scrub.
 */
import tuple from "fdb-tuple";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import type { EventStream, StoredEvent } from "../../../../shared/records/scrub/events.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { acknowledgeAlerts } from "../../../../shared/records/task/alert-acks.ts";
import type { KeyValue, Store } from "../../../../shared/store/store.ts";
import { type Edit, editOf, familyOf } from "../../../harness/records/edits.ts";
import { completeSortie, specialist, startMission } from "../../../harness/records/missions.ts";
import {
  create,
  finalize,
  input,
  OPERATOR,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { dump, storeOf } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

/** Two chunks, and no more: the time of the test is that of reading this text thousands of times. */
const LARGE_CHARS = 80_000;
const SEEDS = Array.from({ length: 500 }, (_, n) => n + 1);

/** The families whose edits may change an answer without a finding. SECURITY.md names them too. */
const NOT_PROMISED = new Map([
  ["text", "words of the search, which a rebuild of the index makes again"],
  ["posted", "words of the search, which a rebuild of the index makes again"],
  ["s/count", "counters for operators, changed without a read, so no snapshot has their exact value"],
  ["s/bell", "counters that wake the relay"],
  ["s/meta", "without its position the index begins again; the others are the settings of services"],
]);

const MISSIONS = ["msn-1", "msn-2"];
const UPDATE = { command: uuidv7(), task: "clinic-1", tenant: "clinic" };

let bench: TestRecords;
let place: TestTasks;
let rows: readonly KeyValue[];
let events: EventStream;
let checkpoints: readonly { readonly tenant: string; readonly task: string; readonly id: string }[];
let handoffs: readonly string[];
/** The id of a checkpoint that is quarantined before the edits. */
let quarantined: string;

const update = (
  repository: CheckpointRepository,
  id: string,
  by: { task: string; tenant?: string; commandId?: string },
) =>
  send(
    repository,
    "update",
    { checkpoint_id: id, patch: { execution_state: { current_focus: "the rest" } } },
    by,
  );

/** Text that zstd compresses by a fifth only, so that it needs chunks. */
const noise = (chars: number) =>
  Array.from({ length: chars }, () => String.fromCharCode(33 + Math.random() * 90)).join("");

async function makeTasks(): Promise<void> {
  const { repository } = bench;
  const task = await place.owned(3);
  const by = { task, fence: 1 };
  const made = await repository.history("default", { task_id: task, limit: 10, order: "oldest" });
  const [first, second, third] = made.checkpoints.map(({ metadata }) => metadata.checkpoint_id);
  await update(repository, second!, by);
  await finalize(repository, first!, "succeeded", by);
  quarantined = third!;
  await repository.quarantine("default", task, [
    { checkpoint_id: quarantined, version: 1, reason: "hash mismatch" },
  ]);
  await create(repository, { ...by, checkpoint: input({ current_focus: noise(LARGE_CHARS) }) });
  const long = await place.owned(5);
  const [old] = (await repository.history("default", { task_id: long, limit: 1, order: "oldest" }))
    .checkpoints;
  await send(repository, "remove", { checkpoint_id: old?.metadata.checkpoint_id }, { task: long });
  await send(repository, "hold", { hold: "case-1" }, { task: long });
  await place.offered();
  await place.resumed();
  await place.attempted();
  await place.fail(await place.owned(1));
  await makeMissions();
  const { checkpoint_id: other } = await create(repository, UPDATE);
  await update(repository, other, { ...UPDATE, commandId: UPDATE.command });
  for (const tenant of ["default", "clinic"]) await acknowledge(tenant);
  // The requests of later scrubs then have no effect, so they add no entry to an edited chain.
  await repository.startScrub(OPERATOR);
}

/** Two, so that a record may get the value of another one: with sorties, held files, and agents that wait for them. */
async function makeMissions(): Promise<void> {
  const { repository } = bench;
  for (const task of MISSIONS) {
    const by = { task, agent: "dispatch" };
    await startMission(repository, 4, { task });
    const hold = (path: string, agent: string, wait_ms = 0) =>
      send(repository, "lock_acquire", { path, wait_ms }, { task, agent });
    await hold("src/part-2.ts", specialist(2));
    await hold("src/part-2.ts", specialist(3), 3_600_000);
    await completeSortie(repository, 1, { task });
    await send(repository, "mission_checkpoint", { note: "as it is" }, by);
  }
}

const acknowledge = (tenant: string) =>
  bench.store.transact({ label: "test", deadlineMs: 5_000, onUnknown: "unsafe" }, (tx) => {
    const alerts = ["one", "two", "three"].map((name) => `${tenant}/task-1/${name}`);
    return acknowledgeAlerts(tx, { tenant, alerts, by: OPERATOR.caller, note: null, nowMs: place.now });
  });

beforeAll(async () => {
  bench = await openTestRecords("memory", () => place?.now ?? Date.now());
  place = new TestTasks(bench);
  await makeTasks();
  for (let more = true; more; ) ({ more } = await stepIndex(bench.store, async () => {}));
  rows = await dump(bench.store);
  const ids = rows.filter((row) => familyOf(row) === "checkpoints");
  checkpoints = ids.map(({ key }) => {
    const [, first, tenant, , task] = tuple.unpack(Buffer.from(key)) as string[];
    const id = Buffer.from(key.subarray(-16)).toString("hex");
    const uuid = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
    return first === "t"
      ? { tenant: tenant!, task: task!, id: uuid }
      : { tenant: "default", task: tenant!, id: uuid };
  });
  const { handoffs: made } = await bench.repository.handoffs("default", { limit: 100 });
  handoffs = made.map(({ handoff_id }) => handoff_id);
  const tasks = [...new Set(checkpoints.map(({ task }) => task))];
  const waiting = (await Promise.all(tasks.map((task) => place.outbox(task)))).flat();
  const stored = waiting.map(({ json }, i): StoredEvent => ({ seq: i + 1, body: Buffer.from(json) }));
  events = {
    newest: async () => stored.length,
    read: async (fromSeq, limit) => stored.slice(fromSeq - 1, fromSeq - 1 + limit),
  };
});
afterAll(() => bench.close());

function repositoryOn(store: Store, onCorrupt: (id: string | null) => void = () => {}): CheckpointRepository {
  return new CheckpointRepository({
    store,
    format: bench.format,
    finder: "test",
    now: () => place.now,
    onCorrupt: (_task, { checkpoint_id }) => onCorrupt(checkpoint_id),
  });
}

const REFUSED = /^\{"error":"(CORRUPT|INTERNAL|UNSUPPORTED_VERSION)"\}$/;

interface Answers {
  readonly answers: ReadonlyMap<string, string>;
  /** Whether a read named a corrupt version. */
  readonly isNamed: boolean;
}

/** Whether a list of handoffs or missions names one whose record is corrupt. */
function namesCorruptRecord(answer: unknown): boolean {
  const { handoffs, missions, corrupt } = answer as Record<string, readonly unknown[] | undefined>;
  return (handoffs ?? missions) !== undefined && corrupt !== undefined && corrupt.length > 0;
}

async function answersOf(store: Store): Promise<Answers> {
  let isNamed = false;
  const repository = repositoryOn(store, (id) => {
    isNamed ||= id !== quarantined;
  });
  const answers = new Map<string, string>();
  const ask = async (name: string, query: () => Promise<unknown>): Promise<void> => {
    const answer = await query().catch((error: Error) => ({
      error: (error as { code?: string }).code ?? error.name,
    }));
    isNamed ||= namesCorruptRecord(answer);
    answers.set(name, JSON.stringify(answer));
  };
  const page = { limit: 100 };
  for (const mission_id of MISSIONS) {
    const of = { mission_id };
    const { missions } = repository;
    await ask(`mission ${mission_id}`, () => missions.find("default", "dispatch", of));
    await ask(`sorties of ${mission_id}`, () => missions.sorties("default", { ...of, ...page }));
    await ask(`locks of ${mission_id}`, () => missions.locks("default", of));
    await ask(`context of ${mission_id}`, () => missions.recoveryContext("default", of));
    await ask(`preview of ${mission_id}`, () => missions.previewResumption("default", "dispatch", of));
  }
  for (const active of [true, false]) {
    const listed = { ...page, active, recoverable: false };
    await ask(`missions, ${active}`, () => repository.missions.list("default", listed));
  }
  for (const { tenant, task } of new Map(checkpoints.map((one) => [one.task, one])).values()) {
    const of = { ...page, task_id: task };
    await ask(`task ${task}`, () => repository.task(tenant, task));
    await ask(`latest ${task}`, () => repository.latest(tenant, task));
    await ask(`history ${task}`, () => repository.history(tenant, { ...of, order: "oldest" }));
    await ask(`audit ${task}`, () => repository.audit(tenant, { ...of, from_seq: 1 }));
    await ask(`handoffs ${task}`, () => repository.handoffs(tenant, of));
    await ask(`point ${task}`, () => repository.recoveryPoint(tenant, { task_id: task, force: true }));
  }
  for (const { tenant, id } of checkpoints) {
    await ask(`get ${id}`, () => repository.get(tenant, id));
    await ask(`get ${id} 1`, () => repository.get(tenant, id, 1));
  }
  for (const id of handoffs)
    await ask(`handoff ${id}`, () => repository.handoff("default", { handoff_id: id }));
  const filters = [
    {},
    { phase: "implementing" },
    { agent_id: "agent-1" },
    { status: "active" },
    { text: "issue" },
  ] as const;
  for (const tenant of ["default", "clinic"]) {
    await ask(`chain of ${tenant}`, () => repository.tenantActs.page(tenant, { ...page, from_seq: 1 }));
    await ask(`handoffs of ${tenant}`, () => repository.handoffs(tenant, page));
    await ask(`tasks of ${tenant}`, () => repository.tasks(tenant, page));
    await ask(`recoveries of ${tenant}`, () => repository.recoveries(tenant, page));
    for (const filter of filters) {
      await ask(`search ${tenant} ${JSON.stringify(filter)}`, () =>
        repository.search(tenant, { ...page, ...filter } as never),
      );
    }
  }
  await ask("index", () => repository.indexStatus());
  const { id } = checkpoints.find(({ tenant }) => tenant === "clinic")!;
  await ask("repeated command", () => update(repository, id, { ...UPDATE, commandId: UPDATE.command }));
  return { answers, isNamed };
}

async function isScrubbed(edit: Edit): Promise<boolean> {
  const store = await storeOf(edit.rows);
  const { pass } = await scrub({ store, repository: repositoryOn(store) }, { quarantines: false, events });
  await store.close({ drainMs: 100 });
  return pass.findings > 0;
}

/** The changed answers of an edit that neither a read nor the scrub finds. */
async function missedBy(edit: Edit, sound: Answers): Promise<readonly string[]> {
  const store = await storeOf(edit.rows);
  const { answers, isNamed } = await answersOf(store);
  await store.close({ drainMs: 100 });
  const changed = [...answers].filter(([query, answer]) => sound.answers.get(query) !== answer);
  if (changed.length === 0 || isNamed || changed.some(([, answer]) => REFUSED.test(answer))) return [];
  return (await isScrubbed(edit))
    ? []
    : changed.map(([query, answer]) => `${query}: ${answer.slice(0, 200)}`);
}

/** A quarantined version is not verified again: every answer names it as corrupt already. */
function isOfQuarantined({ family, row }: Edit): boolean {
  const bytes = Buffer.from(quarantined.replaceAll("-", ""), "hex");
  return (family === "checkpoints" || family === "chunks") && Buffer.from(row.key).includes(bytes);
}

test("the store has rows of all families of a task, and the scrub finds nothing in it", async () => {
  expect([...new Set(rows.map(familyOf))]).toEqual(
    expect.arrayContaining([
      "active_missions",
      "agent_locks",
      "audit",
      "checkpoints",
      "children",
      "chunks",
      "handoffs",
      "idem",
      "ids",
      "ix",
      "mission_locks",
      "missions",
      "order",
      "s/mission_due",
      "sorties",
      "tenant_audit",
      "tenant_chain",
    ]),
  );
  const { findings } = await scrub(bench, { quarantines: false, events });
  expect(findings).toEqual([]);
});

test("finds every edit that changes an answer", async () => {
  const sound = await answersOf(await storeOf(rows));
  expect(sound.isNamed).toBe(false);
  for (const seed of SEEDS) {
    const edit = editOf(rows, seed);
    if (NOT_PROMISED.has(edit.family) || isOfQuarantined(edit)) continue;
    expect(await missedBy(edit, sound), `seed ${seed}: ${edit.name}`).toEqual([]);
  }
}, 400_000);
