/** The evidence for the verdict: the recorded history, and the final state of the store and the streams. */
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import type { Alert } from "../../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { ScrubFinding } from "../../../../shared/protocol/scrub.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { CallAttempt, CommittedFacts, DamageLine, LifecycleLine, SentLine } from "../agents/history.ts";

/** An audit entry, parsed; the chain is verified over its exact text. */
export interface Entry {
  readonly seq: number;
  /** By the clock of the service. */
  readonly at: string;
  readonly op: string;
  readonly command_id: string | null;
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  readonly old_hash: string | null;
  readonly new_hash: string | null;
  readonly state_from: string | null;
  readonly state_to: string;
  readonly fence: number;
  readonly owner_to?: string | null;
  readonly handoff_id?: string;
  readonly handoff_from?: string | null;
  readonly handoff_to?: string;
  /** The number of an offer or of an attempt at recovery, and the deadline of an offer. */
  readonly attempt?: number;
  readonly deadline?: string;
  /** The digest of an offer, and of the offer that was accepted. */
  readonly offer_digest?: string;
  /** The reason of a failure or a block. */
  readonly reason?: string;
  /** The entry that was alerted earlier, for a repeated block. */
  readonly alerted_seq?: number;
  /** The checkpoint that confirms a handoff or resumes a recovery. */
  readonly first_checkpoint?: string;
  /** The failed agent, the failure class, the signal that revealed the failure, and the recovery action. */
  readonly owner_from?: string | null;
  readonly class?: string;
  readonly signal?: string;
  readonly action?: string;
  readonly recovery_from?: string;
  readonly recovery_to?: string;
  /** Whether an operator's request restores the budget: `yes` or `no`. */
  readonly reset?: string;
  /** The rung and the recovery point of an attempt. */
  readonly rung?: string;
  readonly from_checkpoint?: string;
  readonly final_status?: string;
  /** The policy of a removed checkpoint. */
  readonly retention_policy?: string | null;
  /** The holds of the task after a change of them. */
  readonly holds?: readonly string[];
}

export interface FinalTask {
  readonly task: string;
  readonly head: Task;
  /** The stored head; null in a scripted history. */
  readonly record: TaskRecord | null;
  /** The number and the exact text of every entry, in the order of their keys. */
  readonly records: readonly { readonly seq: number; readonly entry: string }[];
  readonly entries: readonly Entry[];
  /** The checkpoints in the order of the task, each with its current version. */
  readonly current: readonly { readonly checkpoint_id: string; readonly version: number }[];
  /** What is left of the removed checkpoints, in the order of the task. */
  readonly removed: readonly RemovedCheckpoint[];
  /** The hashes of the valid versions, by {@link versionName}. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** A queued command that was not applied. */
export interface DeadLetter {
  readonly command_id: string | null;
  readonly reason: string;
  /** The time of the dead letter, in milliseconds of the wall clock. */
  readonly at: number;
}

/** An exit report of an agent or its runner; `at` is the time at which it was stored, in milliseconds of the wall clock. */
export interface ExitRecord {
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly class: string;
  readonly at: number;
}

export interface FinalState {
  readonly tasks: ReadonlyMap<string, FinalTask>;
  /** The system's own count of the transitions of all tasks. */
  readonly transitions: number;
  readonly handoffs: ReadonlyMap<string, Handoff>;
  readonly alerts: readonly Alert[];
  /** The events in the order of their stream, including duplicates, then those that the outbox still has. */
  readonly events: readonly FleetEvent[];
  readonly dead: readonly DeadLetter[];
  readonly exits: readonly ExitRecord[];
  /** The findings of a complete scrub of the store. */
  readonly findings: readonly ScrubFinding[];
}

/** A heartbeat on the bus; times are of the wall clock. */
export interface HeartbeatRecord {
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly sentAt: number;
  readonly receivedAt: number;
  /** The deadline of the open step. */
  readonly stepDeadline: number | null;
}

export interface Evidence {
  readonly attempts: readonly CallAttempt[];
  readonly finalState: FinalState;
  /** The sent commands by id. */
  readonly sent: ReadonlyMap<string, SentLine>;
  readonly lifecycle: readonly LifecycleLine[];
  readonly damages: readonly DamageLine[];
  /** The heartbeats in the order of their arrival. */
  readonly heartbeats: readonly HeartbeatRecord[];
  /** The silence after which an agent counts as failed. */
  readonly silenceMs: number;
  /** By so much the silence may seem longer, because the bus may lose a heartbeat on its way to the watchdogs. 0: it loses none. */
  readonly lossMs: number;
  /** Whether agents have a spool: the order of the queue then holds for their next process too. */
  readonly hasSpools: boolean;
}

export const VIOLATIONS = [
  "lost",
  "applied_twice",
  "refused_but_applied",
  "unasked",
  "answers_differ",
  "expectation_broken",
  "not_linearizable",
  "unresolved",
  "zombie_accepted",
  "audit_incomplete",
  "chain_broken",
  "state_wrong",
  "event_missing",
  "event_out_of_order",
  "event_unfounded",
  "queued_lost",
  "queued_out_of_order",
  "handoff_lost",
  "handoff_unfinished",
  "handoff_unjustified",
  "handoff_taken_twice",
  "two_owners",
  "alert_missing",
  "alert_unfounded",
  "corrupt",
  "corrupt_served",
  "false_recovery",
  "recovered_twice",
  "recovery_unjustified",
  "recovery_unfinished",
  "budget_overdrawn",
  "budget_returned",
  "ended_restarted",
  "removal_incomplete",
  "removal_unjustified",
  "scrub_failed",
  "process_failed",
  "error_visible",
  "not_recovered",
] as const;
export type ViolationKind = (typeof VIOLATIONS)[number];

export interface Violation {
  readonly kind: ViolationKind;
  readonly task: string | null;
  /** A static description; the variable parts are in `details`. */
  readonly text: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export const versionName = (id: string | null, version: number | null): string => `${id}/${version}`;

/** All messages of one command, with the facts that follow from them. */
export interface Command {
  readonly id: string;
  readonly task: string;
  readonly attempts: readonly CallAttempt[];
  /** The command cannot have been applied before this time. */
  readonly begin: number;
  /** The time of the first committed answer; infinite without one. */
  readonly knownAt: number;
  /** The first committed answer. */
  readonly committed: CommittedFacts | undefined;
  readonly wasQueued: boolean;
}

export function commandsOf(attempts: readonly CallAttempt[]): Map<string, Command> {
  const byId = new Map<string, CallAttempt[]>();
  for (const attempt of attempts) {
    if (attempt.command_id === undefined) continue;
    const known = byId.get(attempt.command_id);
    if (known === undefined) byId.set(attempt.command_id, [attempt]);
    else known.push(attempt);
  }
  return new Map([...byId].map(([id, own]) => [id, commandOf(id, own)]));
}

function commandOf(id: string, attempts: readonly CallAttempt[]): Command {
  const answered = attempts.filter(({ outcome }) => outcome === "committed");
  const first = answered.reduce<CallAttempt | undefined>(
    (best, one) => (best === undefined || one.end < best.end ? one : best),
    undefined,
  );
  return {
    id,
    task: attempts[0]!.task,
    attempts,
    begin: Math.min(...attempts.map(({ begin }) => begin)),
    knownAt: first?.end ?? Number.POSITIVE_INFINITY,
    committed: first?.committed,
    wasQueued: attempts.some(({ outcome }) => outcome === "queued" || outcome === "spooled"),
  };
}

/** The operations that write a version of a checkpoint, for a caller or for the fleet itself. */
export const WRITES_VERSION: ReadonlySet<string> = new Set(["create", "update", "finalize", "link"]);

/** The operations of operators. They need no fence, and are no sign of life of the owner. */
export const OF_OPERATORS: ReadonlySet<string> = new Set(["remove", "retain", "hold"]);

/** The operations whose entries record a fact about a command or a version and apply no command to the task. */
const ANNOTATIONS: ReadonlySet<string> = new Set(["quarantine", "refuse", "fork"]);

/** Entries without a command, such as the transitions of services, count as annotations too. */
export const isAnnotation = ({ op, command_id }: Entry): boolean =>
  ANNOTATIONS.has(op) || command_id === null;

/**
 * The transitions that a command may make in addition, directly after its own: a checkpoint may open a handoff, confirm one and finalize the
 * checkpoint that was handed off, or resume a recovery; a take may end one; and a cancelled handoff may block its task.
 */
const ADDITIONAL: ReadonlySet<string> = new Set([
  "handoff",
  "confirm",
  "finalize",
  "cancel_handoff",
  "resume",
  "settle",
  "block",
]);

/** An operator's request for a recovery first ends the open handoff. */
export const endsForRetry = (entry: Entry, next: Entry | undefined): boolean =>
  entry.op === "cancel_handoff" && next?.op === "retry" && next.command_id === entry.command_id;

/** The entries of the commands' own transitions. */
export function commandEntries(entries: readonly Entry[]): Entry[] {
  return entries.filter((entry, i) => {
    const before = entries[i - 1];
    const isAfterOwn = ADDITIONAL.has(entry.op) && before?.command_id === entry.command_id;
    return !isAnnotation(entry) && !isAfterOwn && !endsForRetry(entry, entries[i + 1]);
  });
}

/** The entries that apply each command: at most one in a correct fleet. */
export function applicationsOf(finalState: FinalState): Map<string, { task: string; entry: Entry }[]> {
  const applications = new Map<string, { task: string; entry: Entry }[]>();
  for (const { task, entries } of finalState.tasks.values()) {
    for (const entry of commandEntries(entries)) {
      const known = applications.get(entry.command_id!);
      if (known === undefined) applications.set(entry.command_id!, [{ task, entry }]);
      else known.push({ task, entry });
    }
  }
  return applications;
}
