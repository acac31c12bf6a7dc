/**
 * The locks after a resumption (seed 002, phase 2 and edge cases): a lock of the snapshot is acquired again for its
 * holder, an expired one with a blocker; a file that another agent holds stays with it and becomes a blocker. A lock
 * whose holder has no open sortie and does not coordinate the mission is an orphan, and is released.
 */
import type { LockSnapshot } from "../../protocol/mission.ts";
import type { HeldLock, LockChanges } from "./locks.ts";
import { isEndedSortie, type SortieRecord } from "./sortie.ts";

export interface LockRestoration {
  /** Locks of the snapshot that their holders have now. */
  readonly reacquired: number;
  readonly blockers: readonly string[];
  /** Locks that other agents hold: their holders are asked for them. */
  readonly foreign: readonly { readonly lock: HeldLock; readonly wanted_by: string }[];
  /** Locks that had expired, as their holders have them again. */
  readonly expired: readonly HeldLock[];
}

export interface LockRestorationInput {
  readonly snapshots: readonly LockSnapshot[];
  /** All sorties after the restoration. */
  readonly sorties: readonly SortieRecord[];
  /** Sorties that stayed as they were; so do the locks of their specialists. */
  readonly kept: readonly string[];
  readonly coordinator: string;
  readonly nowMs: number;
}

export function restoreLocks(locks: LockChanges, input: LockRestorationInput): LockRestoration {
  const { snapshots, sorties, kept, coordinator, nowMs } = input;
  const working = new Set(
    sorties.filter(({ sortie_id }) => kept.includes(sortie_id)).map((one) => one.assigned_to),
  );
  const open = sorties.filter(({ status }) => !isEndedSortie(status));
  const takesPart = (agent: string, sortie: string | null): boolean =>
    agent === coordinator ||
    open.some(
      ({ assigned_to, sortie_id }) => assigned_to === agent && (sortie === null || sortie_id === sortie),
    );
  locks.releaseWhere(({ agent_id, sortie_id }) => !takesPart(agent_id, sortie_id), "orphaned");
  let reacquired = 0;
  const blockers: string[] = [];
  const foreign: { lock: HeldLock; wanted_by: string }[] = [];
  const expired: HeldLock[] = [];
  for (const snapshot of snapshots) {
    const { file, held_by, id, purpose, timeout_ms } = snapshot;
    const sortie_id = typeof snapshot.sortie_id === "string" ? snapshot.sortie_id : null;
    const held = locks.find(file);
    if (held !== undefined && held.agent_id !== held_by) {
      blockers.push(
        `The lock on ${file}, which ${held_by} held, is held by ${held.agent_id} until ${held.expires_at}`,
      );
      foreign.push({ lock: held, wanted_by: held_by });
      continue;
    }
    if (held !== undefined) {
      reacquired += 1;
      continue;
    }
    // What a working specialist has released since then stays released.
    if (working.has(held_by)) continue;
    if (!takesPart(held_by, sortie_id)) {
      blockers.push(`The lock on ${file} was not acquired again, because ${held_by} has no open sortie`);
      continue;
    }
    const granted = locks.grant(file, { lock_id: id, agent_id: held_by, sortie_id, purpose, timeout_ms }, []);
    if (endOf(snapshot) <= nowMs) {
      blockers.push(`The lock of ${held_by} on ${file} had expired; it was acquired again`);
      expired.push(granted);
    }
    reacquired += 1;
  }
  return { reacquired, blockers, foreign, expired };
}

function endOf({ expires_at, acquired_at, timeout_ms }: LockSnapshot): number {
  const stated = typeof expires_at === "string" ? Date.parse(expires_at) : Number.NaN;
  return Number.isNaN(stated) ? Date.parse(acquired_at) + timeout_ms : stated;
}
