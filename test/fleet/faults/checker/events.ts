/**
 * The check of the event stream against the audit trails: every transition is published at least once, its first copy is in the order of its
 * task, and no event is published without a commit.
 */
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import type { Entry, FinalState, Violation } from "./evidence.ts";

const TYPES: Readonly<Record<string, string>> = {
  create: "CHECKPOINT_CREATED",
  update: "CHECKPOINT_UPDATED",
  link: "CHECKPOINT_UPDATED",
  finalize: "CHECKPOINT_FINALIZED",
  quarantine: "CHECKPOINT_CORRUPTED",
  restore: "CHECKPOINT_RESTORED",
  take: "TASK_TAKEN",
  release: "TASK_RELEASED",
  refuse: "COMMAND_REFUSED",
  fork: "TASK_FORKED",
  handoff: "AGENT_HANDOFF",
  validate: "HANDOFF_VALIDATED",
  offer: "HANDOFF_OFFERED",
  acknowledge: "HANDOFF_ACKNOWLEDGED",
  confirm: "HANDOFF_CONFIRMED",
  reject: "HANDOFF_FAILED",
  escalate: "HANDOFF_FAILED",
  cancel_handoff: "HANDOFF_FAILED",
  lapse: "HANDOFF_FAILED",
  block: "TASK_BLOCKED",
  fail: "AGENT_FAILED",
  recover: "RECOVERY_INITIATED",
  resume: "RECOVERY_COMPLETED",
  settle: "RECOVERY_SETTLED",
  retry: "RECOVERY_REQUESTED",
  remove: "CHECKPOINT_REMOVED",
  retain: "TASK_RETENTION_CHANGED",
  hold: "TASK_RETENTION_CHANGED",
  shred_request: "TASK_SHRED_CHANGED",
  shred_approve: "TASK_SHRED_CHANGED",
  shred_cancel: "TASK_SHRED_CHANGED",
  shred_end: "TASK_SHRED_CHANGED",
};

export function checkEvents(finalState: FinalState): Violation[] {
  const byTask = Map.groupBy(finalState.events, ({ subject }) => subject);
  const found: Violation[] = [];
  for (const { task, entries } of finalState.tasks.values())
    found.push(...checkTask(task, entries, byTask.get(task) ?? []));
  for (const [task, events] of byTask) {
    if (!finalState.tasks.has(task)) {
      found.push({
        kind: "event_unfounded",
        task,
        text: "events of a task that does not exist",
        details: { events: events.length },
      });
    }
  }
  return found;
}

function checkTask(task: string, entries: readonly Entry[], events: readonly FleetEvent[]): Violation[] {
  const found: Violation[] = [];
  const bySeq = new Map(entries.map((entry) => [entry.seq, entry]));
  const seen = new Set<number>();
  let highest = 0;
  for (const event of events) {
    const { sequence } = event;
    const entry = bySeq.get(sequence);
    if (entry === undefined || TYPES[entry.op] !== event.type || !isAbout(event, entry)) {
      found.push({
        kind: "event_unfounded",
        task,
        text: "an event has no audit entry",
        details: { id: event.id, type: event.type, op: entry?.op ?? null },
      });
    }
    if (seen.has(sequence)) continue;
    seen.add(sequence);
    if (sequence < highest) {
      found.push({
        kind: "event_out_of_order",
        task,
        text: "an event was first published after a later one of its task",
        details: { sequence, highest },
      });
    }
    highest = Math.max(highest, sequence);
  }
  const missing = entries.filter(({ seq }) => !seen.has(seq)).map(({ seq }) => seq);
  if (missing.length > 0) {
    found.push({
      kind: "event_missing",
      task,
      text: "transitions without an event",
      details: { missing: missing.length, first: missing[0] },
    });
  }
  return found;
}

function isAbout({ data }: FleetEvent, { checkpoint_id }: Entry): boolean {
  return checkpoint_id === null || (data as { checkpointId?: string }).checkpointId === checkpoint_id;
}
