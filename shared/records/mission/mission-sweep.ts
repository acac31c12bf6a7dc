/**
 * The sweep of missions: ends locks, waits and messages whose time is over, and releases the files of agents that
 * failed or were superseded. So a waiter gets the file, and its event, without another command. A wait without success
 * and a message that is not delivered write one error checkpoint (US-302). Each mission is one
 * transaction that checks what is due, so any number of instances may make the same step, and again after a crash.
 */
import { newSalt } from "../../integrity/seal.ts";
import { endOfMission } from "../../lifecycle/mission/mission.ts";
import type { Policies } from "../../protocol/policy.ts";
import { type Bytes, type Store, StoreError, type Tx } from "../../store/store.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { parseMissionDue } from "../kv/mission-keys.ts";
import type { CommandContext } from "../task/command-transaction.ts";
import { lockTimeout, writeSweptLocks } from "./lock-commands.ts";
import { deliveryFailure, failOverdue } from "./messages/delivery-failure.ts";
import { lostAgent } from "./mission-due.ts";
import { MissionTransaction } from "./mission-transaction.ts";

const ROWS_MAX = 32;
const READ_DEADLINE_MS = 3_000;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface MissionSweep {
  readonly store: Store;
  readonly incarnation: number;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly policies: Policies;
  /** Whether the file mirror copies every checkpoint. */
  readonly isMirrored: boolean;
  readonly now: () => number;
  /** A new UUIDv7: the id of an error checkpoint. */
  readonly newId: () => string;
}

type DuePlace = ReturnType<typeof parseMissionDue>;

export interface MissionSweepStep {
  /** Changes of locks. */
  readonly changes: number;
  /** Messages that failed. */
  readonly failed: number;
  /** Missions with a damaged record: nothing of them is changed until a command meets them. */
  readonly skipped: readonly { readonly tenant: string; readonly task: string; readonly error: unknown }[];
  /** Whether another step can follow at once. */
  readonly more: boolean;
}

export async function stepMissionSweep(sweep: MissionSweep): Promise<MissionSweepStep> {
  const { store, now } = sweep;
  const range = systemKeys.missionsDueBefore(now() + 1);
  const { rows, more } = await store.read({ label: "due_missions", deadlineMs: READ_DEADLINE_MS }, (reader) =>
    reader.getRange(range, { limit: ROWS_MAX }),
  );
  const skipped: MissionSweepStep["skipped"][number][] = [];
  let [changes, failed] = [0, 0];
  for (const { key } of rows) {
    const place = parseMissionDue(key);
    const id = sweep.newId();
    try {
      const { value } = await store.transact({ ...WRITE, label: "sweep_mission" }, (tx) =>
        sweepMission(tx, sweep, { key, place, id }),
      );
      changes += value.changes;
      failed += value.failed;
    } catch (error) {
      // The step is repeated when the store is available. A damaged record must not stop the sweep.
      if (error instanceof StoreError) throw error;
      await store.transact({ ...WRITE, label: "pass_mission" }, async (tx) => tx.clear(key));
      skipped.push({ tenant: place.tenant, task: place.task, error });
    }
  }
  return { changes, failed, skipped, more };
}

interface DueRow {
  readonly key: Bytes;
  readonly place: DuePlace;
  readonly id: string;
}

type Swept = Pick<MissionSweepStep, "changes" | "failed">;

async function sweepMission(tx: Tx, sweep: MissionSweep, { key, place, id }: DueRow): Promise<Swept> {
  // Before the changes, which may set a row with the same key.
  if ((await tx.get(key)) === undefined) return NOTHING_SWEPT;
  tx.clear(key);
  const { tenant, task, agent, dueMs } = place;
  const context: CommandContext = {
    actor: { tenant, task, agent: sweep.service },
    commandId: id,
    fence: undefined,
    requestHash: "",
    nowMs: sweep.now(),
    incarnation: sweep.incarnation,
    policies: sweep.policies,
    isMirrored: sweep.isMirrored,
    newSalt,
    traceparent: undefined,
  };
  const work = await MissionTransaction.observe(tx, context);
  if (work === null) return NOTHING_SWEPT;
  const locks = await work.locks();
  const lost = lostAgent(agent);
  if (lost !== null) {
    locks.releaseWhere((claim) => claim.agent_id === lost && Date.parse(claim.from) <= dueMs, "holder_lost");
  }
  const { length: changes } = locks.changes;
  const waits = writeSweptLocks(work);
  const { failed, blockers: messages } = await failOverdue(work);
  const blockers = [...waits, ...messages];
  // The final checkpoint of a mission that has ended stays the newest.
  if (blockers.length > 0 && endOfMission(work.mission.status) === null) {
    const details = waits.length > 0 ? lockTimeout(waits) : deliveryFailure(messages);
    await work.checkpoint({ reason: "error", details }, { blockers });
  }
  await work.finish();
  return { changes, failed };
}

const NOTHING_SWEPT: Swept = { changes: 0, failed: 0 };
