/** Counters: numbers for people, kept by atomic additions so that no transaction waits for another. No transaction decides by them. */
import { HANDOFF_STATES, type HandoffState } from "../../protocol/handoff-states.ts";
import { RECOVERY_STATES, type RecoveryState } from "../../protocol/recovery-states.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { systemKeys } from "./keyspace.ts";

/** What has been counted under `name` so far; 0 when nothing was. */
export async function readCount(reader: Reader, name: "tasks" | "checkpoints" | "events"): Promise<number> {
  return numberIn(await reader.get(systemKeys.count(name)));
}

const handoffCount = (state: HandoffState): Bytes => systemKeys.count(`handoffs_${state}`);

/** A handoff has gone from one state (null: it begins) to another. */
export function countHandoff(tx: Tx, from: HandoffState | null, to: HandoffState): void {
  if (from === to) return;
  if (from !== null) tx.addI64(handoffCount(from), -1n);
  tx.addI64(handoffCount(to), 1n);
}

/** How many handoffs are in each state. */
export async function readHandoffCounts(reader: Reader): Promise<Readonly<Record<HandoffState, number>>> {
  const values = await reader.getMany(HANDOFF_STATES.map(handoffCount));
  const counts = HANDOFF_STATES.map((state, i): [HandoffState, number] => [state, numberIn(values[i])]);
  return Object.fromEntries(counts) as Record<HandoffState, number>;
}

const recoveryCount = (state: RecoveryState): Bytes => systemKeys.count(`recoveries_${state}`);

/** A recovery has gone from one state (null: it begins) to another. */
export function countRecovery(tx: Tx, from: RecoveryState | null, to: RecoveryState): void {
  if (from === to) return;
  if (from !== null) tx.addI64(recoveryCount(from), -1n);
  tx.addI64(recoveryCount(to), 1n);
}

/** How many recoveries are in each state. */
export async function readRecoveryCounts(reader: Reader): Promise<Readonly<Record<RecoveryState, number>>> {
  const values = await reader.getMany(RECOVERY_STATES.map(recoveryCount));
  const counts = RECOVERY_STATES.map((state, i): [RecoveryState, number] => [state, numberIn(values[i])]);
  return Object.fromEntries(counts) as Record<RecoveryState, number>;
}

/** Attempts are also counted by whose agents they wait for. */
export interface AttemptKind {
  readonly tenant: string;
  readonly agentType: string;
}

const attemptCount = ({ tenant, agentType }: AttemptKind): Bytes =>
  systemKeys.count(`attempts/${tenant}/${agentType}`);

/** A task's recovery was an attempt of one kind, and is one of another now; null: none is open. */
export function countAttempt(tx: Tx, from: AttemptKind | null, to: AttemptKind | null): void {
  if (from?.tenant === to?.tenant && from?.agentType === to?.agentType) return;
  if (from !== null) tx.addI64(attemptCount(from), -1n);
  if (to !== null) tx.addI64(attemptCount(to), 1n);
}

/** How many attempts of a kind are open. */
export async function readAttemptCount(reader: Reader, kind: AttemptKind): Promise<number> {
  // Attempts from before there was this counter end uncounted; below zero it would grant more than there are.
  return Math.max(0, numberIn(await reader.get(attemptCount(kind))));
}

function numberIn(value: Bytes | undefined): number {
  return value === undefined ? 0 : Number(Buffer.from(value).readBigInt64LE());
}
