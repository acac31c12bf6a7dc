/**
 * The sweep of missions: ends locks and waits whose time is over, and releases the files of agents that failed or
 * were superseded. So a waiter gets the file, and its event, without another command. Each mission is one
 * transaction that checks what is due, so any number of instances may make the same step, and again after a crash.
 */
import type { Policies } from "../../protocol/policy.ts";
import { type Bytes, type Store, StoreError, type Tx } from "../../store/store.ts";
import { thresholdsIn } from "../checkpoint/triggers.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { parseMissionDue } from "../kv/mission-keys.ts";
import type { CommandContext } from "../task/command-transaction.ts";
import { writeLocks } from "./lock-commands.ts";
import { OF_MISSION } from "./mission-due.ts";
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
  readonly changes: number;
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
  let changes = 0;
  for (const { key } of rows) {
    const place = parseMissionDue(key);
    const id = sweep.newId();
    try {
      const { value } = await store.transact({ ...WRITE, label: "sweep_mission" }, (tx) =>
        sweepMission(tx, sweep, { key, place, id }),
      );
      changes += value;
    } catch (error) {
      // The step is repeated when the store is available. A damaged record must not stop the sweep.
      if (error instanceof StoreError) throw error;
      await store.transact({ ...WRITE, label: "pass_mission" }, async (tx) => tx.clear(key));
      skipped.push({ tenant: place.tenant, task: place.task, error });
    }
  }
  return { changes, skipped, more };
}

interface DueRow {
  readonly key: Bytes;
  readonly place: DuePlace;
  readonly id: string;
}

/** Returns the number of changes. */
async function sweepMission(tx: Tx, sweep: MissionSweep, { key, place, id }: DueRow): Promise<number> {
  // Before the changes, which may set a row with the same key.
  if ((await tx.get(key)) === undefined) return 0;
  tx.clear(key);
  const { tenant, task, agent, dueMs } = place;
  const context: CommandContext = {
    actor: { tenant, task, agent: sweep.service },
    commandId: id,
    fence: undefined,
    requestHash: "",
    nowMs: sweep.now(),
    incarnation: sweep.incarnation,
    thresholdsOf: thresholdsIn(sweep.policies),
    policies: sweep.policies,
    isMirrored: sweep.isMirrored,
    traceparent: undefined,
  };
  const work = await MissionTransaction.observe(tx, context);
  if (work === null) return 0;
  const locks = await work.locks();
  if (agent !== OF_MISSION) {
    locks.releaseWhere((claim) => claim.agent_id === agent && Date.parse(claim.from) <= dueMs, "holder_lost");
  }
  const { length: changes } = locks.changes;
  await writeLocks(work);
  work.finish();
  return changes;
}
