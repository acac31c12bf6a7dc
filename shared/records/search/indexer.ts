/**
 * The indexer: follows the feed and updates index entries and postings, step by step. A step is planned on a
 * snapshot and written in one short transaction, which checks that the index state is unchanged and advances
 * the cursor. So a crash between steps repeats nothing and skips nothing, and of two concurrent indexers only
 * one writes a step.
 *
 * A corrupt checkpoint version is not indexed. It is returned to the caller, which quarantines it. The entries of
 * a removed checkpoint are cleared when the feed names its removal.
 */
import { setImmediate } from "node:timers/promises";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { groupBy } from "../../protocol/group-by.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Reader, STORE_LIMITS, type Store, type Tx } from "../../store/store.ts";
import { readVersions, type VersionFound } from "../checkpoint/versions.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { type FeedEntry, isOfVersion, readFeed } from "../outbox/feed.ts";
import { readRemoved } from "../retention/tombstone.ts";
import { type ClearingPlan, planClearing, writeClearing } from "./index-clear.ts";
import { IndexPlan, nameOf } from "./index-plan.ts";
import { type IndexState, readIndexState, writeIndexState } from "./index-state.ts";

/** Leaves more room to the store's limit than one feed entry can add. */
const PLAN_BYTES = STORE_LIMITS.transaction_bytes_max * 0.7;
/**
 * Feed entries planned between two yields to the event loop: an embedded store answers reads without
 * yielding.
 */
const SLICE = { usual: 8, behind: 32 };
/** After a longer slice, of large checkpoints, the next ones are small: requests wait for its end. */
const SLICE_MS = 20;
const PLAN_DEADLINE_MS = 3_000;
const WRITE_DEADLINE_MS = 3_000;
/** A plan ends then with what it has: on a machine that is busy all the time, full steps could miss the deadline again and again. */
const PLAN_MS = 1_000;

export interface CorruptVersion {
  readonly tenant: string;
  readonly task: string;
  readonly corrupt: CorruptCheckpoint;
}

export interface IndexStep {
  /** The number of feed entries that this step indexed. */
  readonly followed: number;
  /** Whether another step can follow at once. */
  readonly more: boolean;
  readonly rebuilding: boolean;
  readonly corrupt: readonly CorruptVersion[];
}

type Plan =
  | { readonly kind: "clear"; readonly clearing: ClearingPlan; readonly step: IndexStep }
  | {
      readonly kind: "follow";
      readonly plan: IndexPlan | null;
      readonly next: IndexState;
      readonly step: IndexStep;
    };

/**
 * Makes one step. `guard` runs first in the writing transaction and throws when this instance may no longer
 * write. A step that another indexer overtook writes nothing and returns `more`.
 */
export async function stepIndex(
  store: Store,
  guard: (tx: Tx) => Promise<void>,
  monotonic: () => number = () => performance.now(),
): Promise<IndexStep> {
  const options = { label: "plan_index", deadlineMs: PLAN_DEADLINE_MS };
  const { state, plan } = await store.read(options, async (reader) => {
    const state = await readIndexState(reader);
    return { state, plan: await planStep(reader, state, monotonic) };
  });
  if (plan.kind === "follow" && plan.plan === null && plan.next === state) return plan.step;
  // Safe to repeat: a second run finds another index state and writes nothing.
  const writing = {
    label: "write_index",
    deadlineMs: WRITE_DEADLINE_MS,
    priority: "batch",
    onUnknown: "safe",
  } as const;
  const { value: isWritten } = await store.transact(writing, async (tx) => {
    await guard(tx);
    if (!isSame(await readIndexState(tx), state)) return false;
    if (plan.kind === "clear") writeClearing(tx, state, plan.clearing);
    else {
      plan.plan?.write(tx);
      writeIndexState(tx, plan.next);
    }
    return true;
  });
  return isWritten
    ? plan.step
    : { followed: 0, more: true, rebuilding: state.state === "rebuilding", corrupt: [] };
}

/** Whether the index state is unchanged. Every step and every rebuild changes one of these fields. */
function isSame(a: IndexState, b: IndexState): boolean {
  const at = (state: IndexState): string => Buffer.from(state.cursor ?? []).toString("hex");
  const isSameKind = a.state === b.state && a.blinded === b.blinded && a.clearing === b.clearing;
  return isSameKind && a.entries === b.entries && at(a) === at(b);
}

async function planStep(reader: Reader, state: IndexState, monotonic: () => number): Promise<Plan> {
  const endsAt = monotonic() + PLAN_MS;
  const rebuilding = state.state === "rebuilding";
  if (state.clearing !== null) {
    const clearing = await planClearing(reader, state.clearing);
    return { kind: "clear", clearing, step: { followed: 0, more: true, rebuilding, corrupt: [] } };
  }
  const page = await readFeed(reader, state.cursor, LIMITS.index_batch_count_max);
  const plan = new IndexPlan(state.entries, state.blinded ?? false);
  const corrupt: CorruptVersion[] = [];
  // A busy thread does much other work between two slices, so that small ones would keep the index behind.
  let size = page.more && !rebuilding ? SLICE.behind : SLICE.usual;
  let followed = 0;
  while (
    followed < page.entries.length &&
    plan.bytes < PLAN_BYTES &&
    (followed === 0 || monotonic() < endsAt)
  ) {
    const beganAt = monotonic();
    const slice = page.entries.slice(followed, followed + size);
    const versions = await readVersions(reader, slice);
    await plan.prepare(reader, slice);
    const removed = await readRemovedOf(
      reader,
      slice.filter((_, i) => versions[i] === null),
    );
    for (const [i, entry] of slice.entries()) {
      if (plan.bytes >= PLAN_BYTES) break;
      const found = versions[i] as VersionFound;
      if (found !== null && !found.sound) {
        corrupt.push({ tenant: entry.tenant, task: entry.task, corrupt: found.corrupt });
      } else if (found !== null && isOfVersion(entry)) {
        plan.add(entry, state.entries + followed, found.checkpoint);
      } else if (isOfVersion(entry) && removed.has(nameOf(entry))) {
        plan.remove(entry);
      }
      followed += 1;
    }
    if (monotonic() - beganAt > SLICE_MS) size = SLICE.usual;
    await setImmediate();
  }
  const more = page.more || followed < page.entries.length;
  const becomesReady = rebuilding && !more;
  if (followed === 0 && !becomesReady) {
    return { kind: "follow", plan: null, next: state, step: { followed, more, rebuilding, corrupt } };
  }
  const next: IndexState = {
    state: more ? state.state : "ready",
    clearing: null,
    cursor: page.entries[followed - 1]?.key ?? state.cursor,
    entries: state.entries + followed,
    indexed: state.indexed + plan.added,
    ...(state.blinded !== undefined && { blinded: state.blinded }),
  };
  return { kind: "follow", plan, next, step: { followed, more, rebuilding, corrupt } };
}

/** The removed checkpoints among those that the entries name, by tenant and id. */
async function readRemovedOf(reader: Reader, entries: readonly FeedEntry[]): Promise<ReadonlySet<string>> {
  const named = entries.filter(isOfVersion);
  const ofTenants = groupBy(named, ({ tenant }) => tenant);
  const removed = await Promise.all(
    [...ofTenants].map(async ([tenant, some]) => {
      const ids = [...new Set(some.map(({ checkpoint }) => checkpoint))];
      const gone = await readRemoved(reader, tenantKeys(tenant), ids);
      return [...gone].map((checkpoint) => nameOf({ tenant, checkpoint }));
    }),
  );
  return new Set(removed.flat());
}
