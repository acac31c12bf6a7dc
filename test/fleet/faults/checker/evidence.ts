/** What the checker judges: the recorded history, and the truth that is left in the store and on the event stream at the end. */
import type { Alert } from "../../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { Attempt, CommittedFacts, DamageLine, LifeLine, SentLine } from "../agents/history.ts";

/** An audit entry, parsed; the chain is verified over its exact text. */
export interface Entry {
  readonly seq: number;
  /** Of the acting service's clock. */
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
  /** Of an offer or an attempt at recovery: its number; of an offer until when it stands, too. */
  readonly attempt?: number;
  readonly deadline?: string;
  /** Of an end that is a failure. */
  readonly reason?: string;
  /** Of a block for what the task was blocked for before: the entry of which people were alerted then. */
  readonly alerted_seq?: number;
  /** Of a confirmation, and of a recovery that resumes. */
  readonly first_checkpoint?: string;
  /** Of a failure: who lost the task, as what it failed, how that was found out, and what follows. */
  readonly owner_from?: string | null;
  readonly class?: string;
  readonly signal?: string;
  readonly action?: string;
  readonly recovery_from?: string;
  readonly recovery_to?: string;
  /** Of an attempt at recovery. */
  readonly rung?: string;
  readonly from_checkpoint?: string;
}

export interface TaskTruth {
  readonly task: string;
  readonly head: Task;
  /** Place and exact text of every entry, in the order of their keys. */
  readonly records: readonly { readonly seq: number; readonly entry: string }[];
  readonly entries: readonly Entry[];
  /** The checkpoints in the task's order, each at its current version. */
  readonly current: readonly { readonly checkpoint_id: string; readonly version: number }[];
  /** Hashes of the versions that were read back and verified, by {@link versionName}. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** A command that left the queue without being applied. */
export interface DeadLetter {
  readonly command_id: string | null;
  readonly reason: string;
  /** When it was put there, in milliseconds of the wall clock. */
  readonly at: number;
}

/** What an agent, or its runner, said of its end; `at`: when that was stored, in milliseconds of the wall clock. */
export interface Exit {
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly class: string;
  readonly at: number;
}

export interface Truth {
  readonly tasks: ReadonlyMap<string, TaskTruth>;
  /** How many transitions the system counted by itself, over all tasks: each rang one bell. */
  readonly bells: number;
  readonly handoffs: ReadonlyMap<string, Handoff>;
  readonly alerts: readonly Alert[];
  /** The stream, in its order, duplicates included. */
  readonly events: readonly FleetEvent[];
  readonly dead: readonly DeadLetter[];
  readonly exits: readonly Exit[];
}

/** A sign of life as it passed the bus; times of the wall clock. */
export interface Beat {
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly sentAt: number;
  readonly heardAt: number;
  /** Until when the step under way may take. */
  readonly stepDeadline: number | null;
}

export interface Evidence {
  readonly attempts: readonly Attempt[];
  readonly truth: Truth;
  /** Commands by id, as they were sent. */
  readonly sent: ReadonlyMap<string, SentLine>;
  readonly lives: readonly LifeLine[];
  readonly damages: readonly DamageLine[];
  /** In the order in which they were heard. */
  readonly beats: readonly Beat[];
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
  "process_failed",
  "not_recovered",
] as const;
export type ViolationKind = (typeof VIOLATIONS)[number];

export interface Violation {
  readonly kind: ViolationKind;
  readonly task: string | null;
  /** Static text: what is wrong. What varies is in `details`. */
  readonly text: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export const versionName = (id: string | null, version: number | null): string => `${id}/${version}`;

/** All that is known of one command: every time it was sent, by whomever. */
export interface Command {
  readonly id: string;
  readonly task: string;
  readonly attempts: readonly Attempt[];
  /** It cannot have taken effect before. */
  readonly begin: number;
  /** The first time anybody knew that it is committed; infinite while nobody does. */
  readonly knownAt: number;
  /** Its first answer. */
  readonly committed: CommittedFacts | undefined;
  readonly wasQueued: boolean;
}

export function commandsOf(attempts: readonly Attempt[]): Map<string, Command> {
  const byId = new Map<string, Attempt[]>();
  for (const attempt of attempts) {
    if (attempt.command_id === undefined) continue;
    const known = byId.get(attempt.command_id);
    if (known === undefined) byId.set(attempt.command_id, [attempt]);
    else known.push(attempt);
  }
  return new Map([...byId].map(([id, own]) => [id, commandOf(id, own)]));
}

function commandOf(id: string, attempts: readonly Attempt[]): Command {
  const answered = attempts.filter(({ outcome }) => outcome === "committed");
  const first = answered.reduce<Attempt | undefined>(
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

/** Entries that record something about a command or a version without applying a command. */
const REMARKS: ReadonlySet<string> = new Set(["quarantine", "refuse"]);

/** What no agent asked for counts as a remark too: the moves of coordinators, whose entries name no command. */
export const isRemark = ({ op, command_id }: Entry): boolean => REMARKS.has(op) || command_id === null;

/**
 * Transitions that a command may make besides its own, right behind it: a checkpoint that opens a handoff or resumes a recovery, a take that
 * ends one, or a handoff taken back that leaves its task to a person.
 */
const BESIDES: ReadonlySet<string> = new Set([
  "handoff",
  "confirm",
  "cancel_handoff",
  "resume",
  "settle",
  "block",
]);

/** The entries of commands, each command's own transition alone. */
export function ownEntries(entries: readonly Entry[]): Entry[] {
  return entries.filter((entry, i) => {
    const before = entries[i - 1];
    const isBeside = BESIDES.has(entry.op) && before?.command_id === entry.command_id;
    return !isRemark(entry) && !isBeside;
  });
}

/** Where a command was applied, by the audit trails: once, or not at all. */
export function placesOf(truth: Truth): Map<string, { task: string; entry: Entry }[]> {
  const places = new Map<string, { task: string; entry: Entry }[]>();
  for (const { task, entries } of truth.tasks.values()) {
    for (const entry of ownEntries(entries)) {
      const known = places.get(entry.command_id!);
      if (known === undefined) places.set(entry.command_id!, [{ task, entry }]);
      else known.push({ task, entry });
    }
  }
  return places;
}
