/**
 * The sweep of superseded drafts: a draft is finalized some time after the next checkpoint of its task was
 * created. The sweep follows the feed, so that it finds every draft, also those of an earlier version of the
 * fleet, and costs a command nothing. Each draft is finalized in its own transaction, which checks its status,
 * so that any number of instances may make the same step, and again after a crash.
 */
import { newSalt } from "../../integrity/seal.ts";
import { decisionOfService } from "../../lifecycle/decision.ts";
import { isShredding } from "../../lifecycle/retention/shred-rules.ts";
import { groupBy } from "../../protocol/group-by.ts";
import type { Policies } from "../../protocol/policy.ts";
import { type Bytes, type Reader, type Store, StoreError, type Tx } from "../../store/store.ts";
import { finalizeDraft } from "../checkpoint/finalize.ts";
import { decodeOrder } from "../checkpoint/order.ts";
import { readVersions } from "../checkpoint/versions.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { isOfVersion, readFeed } from "../outbox/feed.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { writeTransitions } from "../task/transitions.ts";

/** The feed entries of one step, and the new checkpoints among them, which are read with their bodies. */
const ENTRIES_MAX = 256;
const CREATED_MAX = 16;
const READ_DEADLINE_MS = 3_000;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface DraftSweep {
  readonly store: Store;
  readonly incarnation: number;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly now: () => number;
  readonly policies: Policies;
  /** The age of the next checkpoint at which a draft is due. */
  readonly afterMs: number;
}

/** The position of a superseded checkpoint, which may be a draft. */
export interface SupersededPlace {
  readonly tenant: string;
  readonly task: string;
  readonly seq: number;
}

export interface DraftSweepStep {
  readonly finalized: number;
  /** Drafts that stay drafts, because a record of their task is damaged. */
  readonly skipped: readonly (SupersededPlace & { readonly error: unknown })[];
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

/** Holds the key of the last feed entry that the sweep has passed. */
const cursorKey = (): Bytes => systemKeys.meta("drafts");

export async function stepDraftSweep(sweep: DraftSweep): Promise<DraftSweepStep> {
  const { store } = sweep;
  const due = await store.read({ label: "due_drafts", deadlineMs: READ_DEADLINE_MS }, (reader) =>
    readDueDrafts(reader, sweep.now() - sweep.afterMs),
  );
  const { cursor, last, places, more } = due;
  if (last === null) return { finalized: 0, skipped: [], more: false };
  const byTask = groupBy(places, ({ tenant, task }) => `${tenant}/${task}`);
  const done = await Promise.all([...byTask.values()].map((ofTask) => finalizeInTurn(sweep, ofTask)));
  await store.transact({ ...WRITE, label: "pass_drafts" }, async (tx) => {
    // Otherwise another instance has made this step, and may have made further ones.
    if (isSame(await tx.get(cursorKey()), cursor)) tx.set(cursorKey(), last);
  });
  return {
    finalized: done.reduce((sum, one) => sum + one.finalized, 0),
    skipped: done.flatMap((one) => one.skipped),
    more,
  };
}

function isSame(a: Bytes | undefined, b: Bytes | undefined): boolean {
  return a === b || (a !== undefined && b !== undefined && Buffer.compare(a, b) === 0);
}

interface DueDrafts {
  /** The key after which this step begins; undefined: the beginning of the feed. */
  readonly cursor: Bytes | undefined;
  /** The key of the last entry of this step; null: none is due. */
  readonly last: Bytes | null;
  readonly places: readonly SupersededPlace[];
  readonly more: boolean;
}

async function readDueDrafts(reader: Reader, createdUntilMs: number): Promise<DueDrafts> {
  const cursor = await reader.get(cursorKey());
  const page = await readFeed(reader, cursor ?? null, ENTRIES_MAX);
  const places: SupersededPlace[] = [];
  let [passed, created, isEarly] = [0, 0, false];
  for (const entry of page.entries) {
    if (isOfVersion(entry) && entry.version === 1) {
      if (created === CREATED_MAX) break;
      created += 1;
      const [found] = await readVersions(reader, [entry]);
      // Before a damaged checkpoint a draft stays a draft: its task may have to continue from there.
      if (found?.sound === true) {
        const { seq, committed_at } = found.checkpoint.metadata;
        isEarly = Date.parse(committed_at) > createdUntilMs;
        if (isEarly) break;
        if (seq > 1) places.push({ tenant: entry.tenant, task: entry.task, seq: seq - 1 });
      }
    }
    passed += 1;
  }
  const last = page.entries[passed - 1]?.key ?? null;
  const more = passed === page.entries.length ? page.more : !isEarly;
  return { cursor, last, places, more };
}

/** Finalizes the drafts of one task in turn, because each transaction writes the head of the task. */
async function finalizeInTurn(
  sweep: DraftSweep,
  places: readonly SupersededPlace[],
): Promise<Omit<DraftSweepStep, "more">> {
  const skipped: (SupersededPlace & { error: unknown })[] = [];
  let finalized = 0;
  for (const place of places) {
    try {
      const { value } = await sweep.store.transact({ ...WRITE, label: "finalize_draft" }, (tx) =>
        finalizeSuperseded(tx, sweep, place),
      );
      if (value) finalized += 1;
    } catch (error) {
      // The step is repeated when the store is available. A damaged record must not stop the sweep.
      if (error instanceof StoreError) throw error;
      skipped.push({ ...place, error });
    }
  }
  return { finalized, skipped };
}

/** False if the checkpoint is no draft, or cannot be read. */
async function finalizeSuperseded(
  tx: Tx,
  { service, incarnation, now, policies }: DraftSweep,
  { tenant, task, seq }: SupersededPlace,
): Promise<boolean> {
  const keys = tenantKeys(tenant);
  const draft = decodeOrder(await tx.get(keys.order(task, seq)));
  const head = await readNewestHead(tx, keys, task);
  if (draft === null || head === null || isShredding(head)) return false;
  const nowMs = now();
  const decision = decisionOfService(head, service, nowMs);
  const context = { actor: { tenant, task, agent: service }, nowMs, policies, newSalt };
  await finalizeDraft(tx, context, keys, decision, { id: draft.id, status: "superseded" });
  if (decision.transitions.length === 0) return false;
  const actor = { id: service, type: "service" } as const;
  const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent: undefined };
  writeTransitions(tx, keys, author, head, decision.transitions);
  return true;
}
