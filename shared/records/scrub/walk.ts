/**
 * The walk of a pass: all tenants, all tasks of each by name. A task is found by its head, its order or its trail, so that one whose head
 * is lost is not passed over.
 */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import type { ScrubStep } from "./scrub-reader.ts";
import { type TaskPlace, verifyTask } from "./task.ts";

export interface WalkPlace {
  readonly tenant: string;
  /** The last task of the tenant that is done; null: none is. */
  readonly done: string | null;
  /** The task that is gone on with; null: the next one begins. */
  readonly within: TaskPlace | null;
}

export const WALK_BEGINS: WalkPlace = { tenant: DEFAULT_TENANT, done: null, within: null };

/** Goes on until the step is spent; null: everything is verified. */
export async function walkOn(step: ScrubStep, from: WalkPlace): Promise<WalkPlace | null> {
  for (let place: WalkPlace | null = from; place !== null; ) {
    place = await walkTask(step, place);
    await step.breathe();
    if (place !== null && step.isSpent) return place;
  }
  return null;
}

async function walkTask(step: ScrubStep, { tenant, done, within }: WalkPlace): Promise<WalkPlace | null> {
  const task = within?.task ?? (await taskAfter(step, tenant, done));
  if (task === null) {
    const next = await tenantAfter(step.reader, tenant);
    return next === null ? null : { tenant: next, done: null, within: null };
  }
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
  return firsts.length === 0 ? null : firsts.reduce((least, one) => (inOrder(one, least) < 0 ? one : least));
}

/** As keys are ordered: by bytes. */
function inOrder(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
