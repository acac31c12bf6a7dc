/**
 * Counters for operators, changed by atomic additions so that transactions do not conflict. No transaction
 * reads them to decide.
 */
import type { Handoff } from "../../protocol/handoff-record.ts";
import { HANDOFF_STATES, type HandoffState } from "../../protocol/handoff-states.ts";
import { RECOVERY_STATES, type RecoveryState } from "../../protocol/recovery-states.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { systemKeys } from "./keyspace.ts";

/** The current value of a counter; 0 before its first addition. */
export async function readCount(
  reader: Reader,
  name: "tasks" | "checkpoints" | "removed" | "events",
): Promise<number> {
  return counterValue(await reader.get(systemKeys.count(name)));
}

/** The number of checkpoints that exist. */
export async function readCheckpointCount(reader: Reader): Promise<number> {
  return (await readCount(reader, "checkpoints")) - (await readCount(reader, "removed"));
}

const handoffCount = (state: HandoffState): Bytes => systemKeys.count(`handoffs_${state}`);

const failedAcceptanceCount: Bytes = systemKeys.count("handoffs_agent_failed");

/** Records that a handoff changed its state. `before` is null for a new handoff. */
export function countHandoff(
  tx: Tx,
  before: Pick<Handoff, "state"> | null,
  { state, failure }: Pick<Handoff, "state" | "failure">,
): void {
  if (before?.state === state) return;
  if (before !== null) tx.addI64(handoffCount(before.state), -1n);
  tx.addI64(handoffCount(state), 1n);
  if (failure?.reason === "agent_failed") tx.addI64(failedAcceptanceCount, 1n);
}

/** The number of cancelled handoffs that an agent accepted, and failed before it confirmed them. */
export async function readFailedAcceptances(reader: Reader): Promise<number> {
  return counterValue(await reader.get(failedAcceptanceCount));
}

/** The number of handoffs in each state. */
export async function readHandoffCounts(reader: Reader): Promise<Readonly<Record<HandoffState, number>>> {
  const values = await reader.getMany(HANDOFF_STATES.map(handoffCount));
  const counts = HANDOFF_STATES.map((state, i): [HandoffState, number] => [state, counterValue(values[i])]);
  return Object.fromEntries(counts) as Record<HandoffState, number>;
}

const recoveryCount = (state: RecoveryState): Bytes => systemKeys.count(`recoveries_${state}`);

/** Records that a recovery changed its state. null: there is none. */
export function countRecovery(tx: Tx, from: RecoveryState | null, to: RecoveryState | null): void {
  if (from === to) return;
  if (from !== null) tx.addI64(recoveryCount(from), -1n);
  if (to !== null) tx.addI64(recoveryCount(to), 1n);
}

/** The number of recoveries in each state. */
export async function readRecoveryCounts(reader: Reader): Promise<Readonly<Record<RecoveryState, number>>> {
  const values = await reader.getMany(RECOVERY_STATES.map(recoveryCount));
  const counts = RECOVERY_STATES.map((state, i): [RecoveryState, number] => [state, counterValue(values[i])]);
  return Object.fromEntries(counts) as Record<RecoveryState, number>;
}

/** Attempts are counted by the tenant and the agent type that they wait for. */
export interface AttemptKind {
  readonly tenant: string;
  /** A name with a space stands for a type that only the recovery point decides. */
  readonly agentType: string;
}

const attemptCount = ({ tenant, agentType }: AttemptKind): Bytes =>
  systemKeys.count(`attempts/${tenant}/${agentType}`);

/** Records that a task's open attempt changed its kind. null means that no attempt is open. */
export function countAttempt(tx: Tx, from: AttemptKind | null, to: AttemptKind | null): void {
  if (from?.tenant === to?.tenant && from?.agentType === to?.agentType) return;
  if (from !== null) tx.addI64(attemptCount(from), -1n);
  if (to !== null) tx.addI64(attemptCount(to), 1n);
}

/** The number of open attempts of a kind. */
export async function readAttemptCount(reader: Reader, kind: AttemptKind): Promise<number> {
  // Attempts older than this counter are subtracted without having been added. A negative count would admit
  // too many attempts.
  return Math.max(0, counterValue(await reader.get(attemptCount(kind))));
}

function counterValue(value: Bytes | undefined): number {
  return value === undefined ? 0 : Number(Buffer.from(value).readBigInt64LE());
}
