/**
 * The walk of a pass: all tenants and, for each, all tasks by name, then the records of its commands. A task is found by its head, its order or
 * its trail, so that a task with a lost head is not skipped.
 */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes } from "../../store/store.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import type { ScrubStep } from "./scrub-reader.ts";
import { type TaskPlace, verifyTask } from "./task.ts";
import { verifyCommandRecords } from "./trail/commands.ts";

export interface WalkPlace {
  readonly tenant: string;
  /** The last verified task of the tenant; null: there is none. */
  readonly done: string | null;
  /** The position in a partly verified task; null: the next task begins. */
  readonly within: TaskPlace | null;
  /** The tasks of the tenant are verified, and its commands up to this key; null: none of them. */
  readonly commands?: { readonly after: Bytes | null };
}

export const WALK_START: WalkPlace = { tenant: DEFAULT_TENANT, done: null, within: null };

/**
 * Verifies tasks until the step is spent. Returns where the next step continues; null: the pass has read
 * everything.
 */
export async function walkStore(step: ScrubStep, from: WalkPlace): Promise<WalkPlace | null> {
  for (let place: WalkPlace | null = from; place !== null; ) {
    place = await walkTask(step, place);
    await step.yieldToOthers();
    if (place !== null && step.isSpent) return place;
  }
  return null;
}

async function walkTask(
  step: ScrubStep,
  { tenant, done, within, commands }: WalkPlace,
): Promise<WalkPlace | null> {
  if (commands !== undefined) {
    const last = await verifyCommandRecords(step, tenant, commands.after);
    if (last !== null) return { tenant, done, within: null, commands: { after: last } };
    const next = await tenantAfter(step.reader, tenant);
    return next === null ? null : { tenant: next, done: null, within: null };
  }
  const task = within?.task ?? (await taskAfter(step, tenant, done));
  if (task === null) return { tenant, done, within: null, commands: { after: null } };
  const left = await verifyTask(step, tenant, task, within);
  return left === null ? { tenant, done: task, within: null } : { tenant, done, within: left };
}

async function taskAfter({ reader }: ScrubStep, tenant: string, task: string | null): Promise<string | null> {
  const keys = tenantKeys(tenant);
  const pages = await Promise.all(
    (["tasks", "order", "audit"] as const).map((subspace) =>
      reader.getRange(keys.ofTasksAfter(subspace, task), { limit: 1 }),
    ),
  );
  const firsts = pages.flatMap(({ rows }) => rows.map(({ key }) => parseTask(key)));
  return firsts.length === 0
    ? null
    : firsts.reduce((least, one) => (compareNames(one, least) < 0 ? one : least));
}

/** Compares task names in the order of their keys: by bytes. */
function compareNames(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
