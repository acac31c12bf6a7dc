/** The commands and the query of locks. A wait without success writes an error checkpoint (US-302). */
import {
  type HeldLock,
  type LockChange,
  LockChanges,
  type LockOutcome,
  requireLockRoom,
  timeoutText,
} from "../../lifecycle/mission/locks.ts";
import { requireActive } from "../../lifecycle/mission/mission.ts";
import { FleetError } from "../../protocol/errors.ts";
import type {
  LockAcquireCommand,
  LockList,
  LockReleaseCommand,
  LockRenewCommand,
} from "../../protocol/mission-locks.ts";
import { parsePrincipal } from "../../protocol/principal.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedLock } from "../task/idempotency.ts";
import { requireMission } from "./mission-lists.ts";
import { readLocks, readSortie } from "./mission-records.ts";
import { MissionTransaction } from "./mission-transaction.ts";

export async function acquireLock(
  tx: Tx,
  context: CommandContext,
  { path, purpose, timeout_ms, wait_ms, ...command }: LockAcquireCommand,
): Promise<RememberedLock | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  const sortie_id = command.sortie_id ?? null;
  requireActive(work.mission);
  await requireRight(work, sortie_id);
  const { agent: agent_id } = context.actor;
  const locks = await work.locks();
  const missed = locks.changes.find(
    (one) => isTimeout(one) && one.waiter.agent_id === agent_id && one.lock.path === path,
  );
  const claim = { lock_id: `lck-${context.commandId}`, agent_id, sortie_id, purpose, timeout_ms };
  const outcome =
    missed === undefined
      ? locks.request({ ...claim, path, wait_ms })
      : { state: "timed_out" as const, lock: missed.lock };
  requireLockRoom(locks.table);
  const checkpoint_id = await writeLocks(work);
  return work.complete({ ...answerOf(work, outcome), ...(checkpoint_id !== null && { checkpoint_id }) });
}

export async function renewLock(
  tx: Tx,
  context: CommandContext,
  { path, timeout_ms }: LockRenewCommand,
): Promise<RememberedLock | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  requireActive(work.mission);
  const locks = await work.locks();
  const lock = locks.renew(path, context.actor.agent, timeout_ms);
  await writeLocks(work);
  return work.complete(answerOf(work, { state: "held", lock }));
}

export async function releaseLock(
  tx: Tx,
  context: CommandContext,
  { path, force }: LockReleaseCommand,
): Promise<RememberedLock | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  const { agent } = context.actor;
  requireActive(work.mission);
  const locks = await work.locks();
  const ended = force ? null : locks.withdraw(path, agent);
  if (ended !== null) {
    const lock = locks.requireHeld(path);
    await writeLocks(work);
    const { lock_id } = ended;
    return work.complete({ ...named(work, { path, lock_id }), state: "released", held_by: lock.agent_id });
  }
  const lock = locks.requireHeld(path, force ? undefined : agent);
  const isForced = lock.agent_id !== agent;
  if (isForced && parsePrincipal(agent)?.kind !== "human") work.requireCoordinator();
  locks.release(path, isForced ? "forced" : "released");
  const held_by = locks.find(path)?.agent_id ?? null;
  await writeLocks(work);
  return work.complete({ ...named(work, lock), state: "released", held_by });
}

/** Returns the id of the error checkpoint; null: no wait is over without success. */
async function writeLocks(work: MissionTransaction): Promise<string | null> {
  const blockers = writeSweptLocks(work);
  if (blockers.length === 0) return null;
  const trigger = { reason: "error", details: lockTimeout(blockers) } as const;
  return (await work.checkpoint(trigger, { blockers })).answer.checkpoint_id;
}

export const lockTimeout = ([first]: readonly string[]): string => `LockTimeout: ${first}`;

/** Returns the blockers of an error checkpoint: the waits that are over without success. */
export function writeSweptLocks(work: MissionTransaction): string[] {
  const missed = work.writeLocks().filter(isTimeout);
  const late = missed.filter(({ waiter }) => Date.parse(waiter.deadline) <= work.context.nowMs);
  return late.map(({ lock, waiter }) => timeoutText(lock.path, waiter.agent_id, lock.agent_id));
}

const isTimeout = (change: LockChange): change is Extract<LockChange, { op: "lock_timeout" | "lock_wait" }> =>
  change.op === "lock_timeout";

function answerOf(work: MissionTransaction, outcome: LockOutcome): RememberedLock {
  const { lock } = outcome;
  const answer = { ...named(work, lock), held_by: lock.agent_id };
  switch (outcome.state) {
    case "held":
      return { ...answer, state: "held", fence: lock.fence, until: lock.expires_at };
    case "timed_out":
      return { ...answer, state: "timed_out" };
    case "waiting": {
      const { lock_id, deadline } = outcome.waiter;
      return { ...answer, state: "waiting", lock_id, until: deadline };
    }
  }
}

function named({ at, context }: MissionTransaction, { path, lock_id }: Pick<HeldLock, "path" | "lock_id">) {
  return { task_id: context.actor.task, committed_at: at, path, lock_id };
}

/** A lock for a sortie belongs to its specialist; other locks to any agent that takes part in the mission. */
async function requireRight(work: MissionTransaction, sortie: string | null): Promise<void> {
  if (sortie === null) return await work.requireParticipant();
  const { task, agent } = work.context.actor;
  const found = await readSortie(work.tx, work.keys, task, sortie);
  if (found === null) {
    throw new FleetError("NOT_FOUND", "the mission has no such sortie", {
      details: { mission_id: task, sortie_id: sortie },
    });
  }
  if (found.assigned_to !== agent) work.requireCoordinator();
}

/** Without locks whose time is over, which the next command or the sweep releases. */
export async function listLocks(
  reader: Reader,
  tenant: string,
  { mission_id, path, agent_id }: QueryParams<"locks">,
  nowMs: number,
): Promise<LockList> {
  const keys = tenantKeys(tenant);
  await requireMission(reader, keys, mission_id);
  const found = new LockChanges(await readLocks(reader, keys, mission_id), { nowMs, firstSeq: 0 });
  const { locks } = found.table;
  const shown = locks.filter(
    (lock) =>
      Date.parse(lock.expires_at) > nowMs &&
      (path === undefined || lock.path === path) &&
      (agent_id === undefined || lock.agent_id === agent_id),
  );
  const waiting = ({ timeout_ms: _ms, ...waiter }: HeldLock["waiters"][number]) => waiter;
  return { locks: shown.map((lock) => ({ ...lock, waiters: lock.waiters.map(waiting) })) };
}
