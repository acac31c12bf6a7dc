/**
 * The walk of a pass: all tenants and, for each, all tasks by name, then the records of its commands, the rows of its
 * missions, its own audit chain, its passkeys and its access log; then the feed, the outbox and the index of missions by time. A task is found by its head, its order or its trail,
 * so that a task with a lost head is not skipped.
 */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes } from "../../store/store.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { type AccessLogAt, verifyAccessLog } from "./access-log.ts";
import { verifyFeed } from "./feed.ts";
import {
  MISSION_ROWS_START,
  type MissionRowsAt,
  verifyMissionDue,
  verifyMissionRows,
} from "./mission-index.ts";
import { OUTBOX_START, type OutboxAt, verifyOutbox } from "./outbox.ts";
import type { ScrubStep } from "./scrub-reader.ts";
import { verifyKeyRecords } from "./signing-keys.ts";
import { verifyTenantKeys } from "./task/data-keys.ts";
import { type TaskPlace, verifyTask } from "./task/task.ts";
import { type TenantChainAt, verifyTenantAudit } from "./tenant-audit.ts";
import { verifyCommandRecords } from "./trail/commands.ts";
import { verifyPasskeyRecords } from "./trail/passkeys.ts";

export interface WalkPlace {
  readonly tenant: string;
  /** The last verified task of the tenant; null: there is none. */
  readonly done: string | null;
  /** The position in a partly verified task; null: the next task begins. */
  readonly within: TaskPlace | null;
  /** The tasks of the tenant are verified, and its commands up to this key; null: none of them. */
  readonly commands?: { readonly after: Bytes | null };
  /** The commands of the tenant are verified, and the rows of its missions up to this place. */
  readonly missions?: { readonly at: MissionRowsAt };
  /** The missions of the tenant are verified, and its own audit chain up to this entry; null: none of it. */
  readonly chain?: { readonly at: TenantChainAt | null };
  /** The audit chain of the tenant is verified, and the records of its passkeys up to this key; null: none of them. */
  readonly passkeys?: { readonly after: Bytes | null };
  /** The passkeys of the tenant are verified, and its access log up to this block; null: none of it. */
  readonly access?: { readonly at: AccessLogAt | null };
  /** All tenants are verified, and then the feed up to this key, the outbox up to this place, or the missions up to this key. */
  readonly system?: SystemPlace;
}

type SystemPlace =
  | { readonly feed: Bytes | null }
  | { readonly outbox: OutboxAt }
  | { readonly missionDue: Bytes | null };

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
  { tenant, done, within, commands, missions, chain, passkeys, access, system }: WalkPlace,
): Promise<WalkPlace | null> {
  if (system !== undefined) {
    const left = await verifySystem(step, system);
    return left === null ? null : { tenant, done, within: null, system: left };
  }
  if (commands !== undefined) {
    const last = await verifyCommandRecords(step, tenant, commands.after);
    if (last !== null) return { tenant, done, within: null, commands: { after: last } };
    return { tenant, done, within: null, missions: { at: MISSION_ROWS_START } };
  }
  if (missions !== undefined) {
    const left = await verifyMissionRows(step, tenant, missions.at);
    if (left !== null) return { tenant, done, within: null, missions: { at: left } };
    return { tenant, done, within: null, chain: { at: null } };
  }
  if (chain !== undefined) {
    const left = await verifyTenantAudit(step, tenant, chain.at);
    if (left !== null) return { tenant, done, within: null, chain: { at: left } };
    if (tenant === DEFAULT_TENANT) await verifyKeyRecords(step);
    return { tenant, done, within: null, passkeys: { after: null } };
  }
  if (passkeys !== undefined) {
    const last = await verifyPasskeyRecords(step, tenant, passkeys.after);
    if (last !== null) return { tenant, done, within: null, passkeys: { after: last } };
    return { tenant, done, within: null, access: { at: null } };
  }
  if (access !== undefined) {
    const left = await verifyAccessLog(step, tenant, access.at);
    if (left !== null) return { tenant, done, within: null, access: { at: left } };
    const next = await tenantAfter(step.reader, tenant);
    const start = { tenant: next ?? tenant, done: null, within: null };
    return next === null ? { ...start, system: { feed: null } } : start;
  }
  if (done === null && within === null) await verifyTenantKeys(step, tenant);
  const task = within?.task ?? (await taskAfter(step, tenant, done));
  if (task === null) return { tenant, done, within: null, commands: { after: null } };
  const left = await verifyTask(step, tenant, task, within);
  return left === null ? { tenant, done: task, within: null } : { tenant, done, within: left };
}

/** Returns where the next call continues; null: all is verified. */
async function verifySystem(step: ScrubStep, system: SystemPlace): Promise<SystemPlace | null> {
  if ("missionDue" in system) {
    const missionDue = await verifyMissionDue(step, system.missionDue);
    return missionDue === null ? null : { missionDue };
  }
  if ("outbox" in system) {
    const outbox = await verifyOutbox(step, system.outbox);
    return outbox === null ? { missionDue: null } : { outbox };
  }
  const feed = await verifyFeed(step, system.feed);
  return feed === null ? { outbox: OUTBOX_START } : { feed };
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
