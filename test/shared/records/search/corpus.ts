/**
 * Varied checkpoints for the tests of index and search, and the expected result of a search over them, found
 * by brute force.
 */
import fc from "fast-check";
import type { Checkpoint, CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import { PHASES, TRIGGER_REASONS } from "../../../../shared/protocol/checkpoint.ts";
import type { SearchResult } from "../../../../shared/protocol/checkpoint-pages.ts";
import { idTime } from "../../../../shared/protocol/ids.ts";
import { QUERY_SCHEMAS } from "../../../../shared/protocol/queries.ts";
import { validate } from "../../../../shared/protocol/validation.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { create, finalize, send } from "../../../harness/records/records.ts";

export const T0 = Date.UTC(2026, 0, 1);
const VOCABULARY = ["parser", "lexer", "größe", "größer", "cache", "retry", "socket", "token", "v2", "index"];

let ids = 0;
/** A UUIDv7 of a given millisecond. Later ids of the same millisecond are greater. */
export function idAt(timeMs: number): string {
  const time = timeMs.toString(16).padStart(12, "0");
  ids += 1;
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${ids.toString(16).padStart(12, "0")}`;
}

const words = fc.uniqueArray(fc.constantFrom(...VOCABULARY), { minLength: 0, maxLength: 4 });

/** One checkpoint and its later changes. */
export const spec = fc.record({
  agent: fc.constantFrom("agent-1", "agent-2", "agent-3"),
  task: fc.constantFrom("task-1", "task-2", "task-3"),
  type: fc.constantFrom("implementation", "qa"),
  phase: fc.constantFrom(...PHASES.slice(0, 3)),
  trigger: fc.constantFrom(...TRIGGER_REASONS.slice(0, 3)),
  words,
  /** Milliseconds after {@link T0}, not in commit order. */
  at: fc.integer({ min: 0, max: 20 }),
  updates: fc.array(fc.record({ phase: fc.constantFrom(...PHASES.slice(0, 3)), words }), { maxLength: 3 }),
  isFinal: fc.boolean(),
});
export type Spec = typeof spec extends fc.Arbitrary<infer S> ? S : never;

export function checkpointOf({ type, phase, trigger, words }: Spec): CheckpointInput {
  return {
    metadata: { agent_type: type, trigger: { reason: trigger } },
    execution_state: { phase, goal: words.join(" ") },
  };
}

/** Writes a checkpoint with its changes; `between` is called after each command. */
export async function write(
  repository: CheckpointRepository,
  one: Spec,
  {
    tenant = "default",
    between = async () => {},
  }: { tenant?: string; between?: () => Promise<unknown> } = {},
): Promise<string> {
  const by = { tenant, agent: one.agent, task: one.task };
  const id = idAt(T0 + one.at);
  await create(repository, { ...by, commandId: id, checkpoint: checkpointOf(one) });
  await between();
  for (const { phase, words } of one.updates) {
    const patch = { execution_state: { phase, current_focus: words.join(" ") } };
    await send(repository, "update", { checkpoint_id: id, patch }, by);
    await between();
  }
  if (one.isFinal) {
    await finalize(repository, id, "succeeded", by);
    await between();
  }
  return id;
}

/** Runs the indexer until it is up to date. Returns the number of steps. */
export async function indexAll(store: Store): Promise<number> {
  for (let steps = 1; ; steps += 1) {
    const { more } = await stepIndex(store, async () => {});
    if (!more) return steps;
  }
}

/** Flips one bit in the middle of a checkpoint's row, as a failing disk does. */
export async function flip(store: Store, task: string, id: string): Promise<void> {
  await store.transact({ label: "flip", deadlineMs: 3_000, onUnknown: "safe" }, async (tx) => {
    const key = tenantKeys("default").checkpoint(task, id);
    const row = Buffer.from((await tx.get(key))!);
    row[row.length >> 1]! ^= 1;
    tx.set(key, row);
  });
}

export type Query = Readonly<Record<string, unknown>>;

export function search(
  repository: CheckpointRepository,
  query: Query,
  tenant = "default",
): Promise<SearchResult> {
  return repository.search(tenant, validate(QUERY_SCHEMAS.search, query));
}

/** The hits of all pages of a search. Throws if a page exceeds its limit or the pages do not end. */
export async function searchAll(
  repository: CheckpointRepository,
  query: Query,
  {
    tenant = "default",
    between = async () => {},
  }: { tenant?: string; between?: () => Promise<unknown> } = {},
): Promise<Checkpoint[]> {
  const found: Checkpoint[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < 1_000; pages += 1) {
    const page = await search(repository, { ...query, ...(cursor && { cursor }) }, tenant);
    if (page.checkpoints.length > ((query.limit as number | undefined) ?? 20))
      throw new Error("the page exceeds its limit");
    found.push(...page.checkpoints);
    cursor = page.cursor;
    if (cursor === undefined) return found;
    await between();
  }
  throw new Error("the pages do not end");
}

const textOf = ({ execution_state: state }: Checkpoint): string[] =>
  `${state.goal ?? ""} ${state.current_focus ?? ""}`.split(" ");

/** Whether a checkpoint matches a query, decided without code of the index. */
export function isWanted({ metadata, execution_state, ...rest }: Checkpoint, query: Query): boolean {
  const time = idTime(metadata.checkpoint_id);
  const is = (name: string, value: unknown) => query[name] === undefined || query[name] === value;
  return (
    is("agent_id", metadata.agent_id) &&
    is("agent_type", metadata.agent_type) &&
    is("task_id", metadata.task_id) &&
    is("phase", execution_state.phase) &&
    is("status", metadata.status) &&
    is("trigger", metadata.trigger.reason) &&
    (query.from === undefined || time >= Date.parse(query.from as string)) &&
    (query.to === undefined || time <= Date.parse(query.to as string)) &&
    (query.text === undefined ||
      (query.text as string)
        .split(" ")
        .every((word) => textOf({ metadata, execution_state, ...rest }).includes(word.toLowerCase())))
  );
}

const time = fc.integer({ min: 0, max: 20 }).map((at) => new Date(T0 + at).toISOString());

/** All filters of a search, with values that occur in the corpus. */
export const FILTERS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  agent_id: fc.constantFrom("agent-1", "agent-2", "agent-3"),
  agent_type: fc.constantFrom("implementation", "qa"),
  task_id: fc.constantFrom("task-1", "task-2", "task-3"),
  phase: fc.constantFrom(...PHASES.slice(0, 3)),
  status: fc.constantFrom("draft", "finalized"),
  trigger: fc.constantFrom(...TRIGGER_REASONS.slice(0, 3)),
  from: time,
  to: time,
  text: fc
    .uniqueArray(fc.constantFrom(...VOCABULARY), { minLength: 1, maxLength: 2 })
    .map((some) => some.join(" ")),
};
