/**
 * The states of a handoff, and the complete table of its transitions. Without zod: programs that need only
 * the names (the help of the command line, a metric's label) do not load the schemas in handoff-record.ts.
 */

export const HANDOFF_STATES = [
  "requested",
  "validated",
  "offered",
  "accepted",
  "confirmed",
  "rejected",
  "escalated",
  "cancelled",
  "lapsed",
] as const;
export type HandoffState = (typeof HANDOFF_STATES)[number];

export const HANDOFF_EVENTS = [
  "validate",
  "reject",
  "offer",
  "acknowledge",
  "confirm",
  "escalate",
  "lapse",
  "cancel",
  "supersede",
] as const;
export type HandoffEvent = (typeof HANDOFF_EVENTS)[number];

type Row = Readonly<Record<HandoffEvent, HandoffState | null>>;

const ENDED: Row = {
  validate: null,
  reject: null,
  offer: null,
  acknowledge: null,
  confirm: null,
  escalate: null,
  lapse: null,
  cancel: null,
  supersede: null,
};

/**
 * Complete by compilation: a new state or event without a decision for every pair is a type error. null:
 * refused. `cancel` is a request, and is refused once an agent has accepted. `supersede` is a fact: the task
 * was taken, ended or handed off again, so its open handoff is void. An ended handoff never changes.
 */
export const HANDOFF_TABLE: Readonly<Record<HandoffState, Row>> = {
  requested: {
    ...ENDED,
    validate: "validated",
    reject: "rejected",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  validated: {
    ...ENDED,
    offer: "offered",
    escalate: "escalated",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  offered: {
    ...ENDED,
    offer: "offered",
    acknowledge: "accepted",
    escalate: "escalated",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  accepted: { ...ENDED, confirm: "confirmed", lapse: "lapsed", supersede: "cancelled" },
  confirmed: ENDED,
  rejected: ENDED,
  escalated: ENDED,
  cancelled: ENDED,
  lapsed: ENDED,
};

export function isOpenHandoff(state: HandoffState): boolean {
  return HANDOFF_TABLE[state].supersede !== null;
}

export const HANDOFF_FAILURES = [
  "hash_broken",
  "chain_broken",
  "agent_type_unknown",
  "no_agent",
  "no_first_checkpoint",
  "superseded",
  "taken",
  "task_ended",
  "withdrawn",
  "agent_failed",
  "prompt_over_budget",
] as const;
export type HandoffFailure = (typeof HANDOFF_FAILURES)[number];
