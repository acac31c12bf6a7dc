/**
 * What an alert says to a person: what happened, what to do, and the command to begin with. One pure function for terminals, webhooks and
 * whoever else shows alerts; it takes what is in the alert and nothing else, and loads no schemas.
 */
import type { Alert, AlertType, ReceivedAlert } from "./alerts.ts";
import type { HandoffFailure } from "./handoff-states.ts";
import { DEFAULT_TENANT } from "./ids.ts";
import type { BlockReason } from "./recovery-states.ts";

export interface AlertText {
  /** A sentence. */
  readonly what: string;
  /** A sentence. */
  readonly todo: string;
  /** To be copied into a shell; it changes nothing. */
  readonly command: string;
  /** The command with which somebody says that they know of it. */
  readonly acknowledge: string;
}

type Draft = Pick<AlertText, "what" | "todo"> & {
  /** Words behind the program's name. */
  readonly look: readonly string[];
};

type Writer<T extends AlertType> = (alert: Alert<T>) => Draft;

type HandoffWords = (
  task: string,
  data: Pick<Alert<"HANDOFF_FAILED">["data"], "toAgentType" | "acceptedBy" | "recoveryAttempt">,
) => Pick<Draft, "what" | "todo">;

const ended: HandoffWords = (task) => ({
  what: `A handoff of task ${task} came to nothing.`,
  todo: "See why it ended.",
});

const HANDOFF_WORDS: Readonly<Record<HandoffFailure, HandoffWords>> = {
  hash_broken: (task) => ({
    what: `Task ${task} is blocked: the checkpoint that was to be handed over does not verify.`,
    todo: "Hand the task over from a sound checkpoint (handoff --checkpoint), or take it and write a new one.",
  }),
  chain_broken: (task) => ({
    what: `Task ${task} is blocked: what its checkpoint goes back to, or its audit trail, does not verify.`,
    todo: "See what is broken before anybody goes on with the task.",
  }),
  agent_type_unknown: (task, { toAgentType: type }) => ({
    what: `Task ${task} is blocked: there is no such type of agent as it was to be handed to${type === undefined ? "" : `, ${type}`}.`,
    todo: "Hand it to a type that there is (handoff --to), or name the type in FLEET_AGENT_TYPES.",
  }),
  no_agent: (task, { toAgentType: type, recoveryAttempt: attempt }) => ({
    what:
      `Task ${task} is blocked: no agent${type === undefined ? "" : ` of type ${type}`} took it over in time, as often as it was offered` +
      (attempt === undefined ? "." : `, at attempt ${attempt} to recover it.`),
    todo:
      `Start an agent of ${type === undefined ? "the type that it was offered to" : `type ${type}`}, ` +
      `then have it offered again (${attempt === undefined ? "recovery run, or else handoff" : "recovery run"}).`,
  }),
  no_first_checkpoint: (task, { acceptedBy }) => ({
    what:
      acceptedBy === undefined
        ? `The agent that took task ${task} over has written no checkpoint in time.`
        : `Agent ${acceptedBy} took task ${task} over and has written no checkpoint in time.`,
    todo: "See who has it, and whether that agent lives.",
  }),
  prompt_over_budget: (task) => ({
    what: `Task ${task} is blocked: no prompt for the next agent fits into the policy's budget.`,
    todo: "Raise offer.prompt_tokens in the policy (FLEET_POLICY), then hand the task over again.",
  }),
  superseded: ended,
  taken: ended,
  task_ended: ended,
  withdrawn: ended,
  agent_failed: ended,
};

/** What a person does about a task that cannot be recovered; of the command line's words, without the program's name. */
export const BLOCKED_WORDS: Readonly<Record<BlockReason, string>> = {
  attempts_spent:
    "Every attempt of the policy failed. Find out why, then give it a new budget (recovery reset).",
  too_many_attempts:
    "It was recovered too often in a short time. Find out why, then give it a new budget (recovery reset).",
  unrecoverable:
    "Another attempt would fail in the same way. Mend the cause, then give it a new budget (recovery reset).",
  chain_broken: "What it goes back to does not verify. Decide where it goes on (recover --from), or take it.",
  no_checkpoint: "There is no checkpoint to go on from. Take it, or begin it anew.",
  no_agent: "Nobody took it over. Start an agent of its type, then run the recovery again (recovery run).",
  withdrawn:
    "Its handoff was taken back, and nobody has it. Take it, or have another agent go on (recovery run).",
};

/** Complete by compilation: a type of alert that says nothing to people is a type error. */
const WRITERS: { readonly [T in AlertType]: Writer<T> } = {
  COMMAND_DEAD: ({ subject, data: { reason } }) => ({
    what: `A queued command of task ${subject} could not be applied: ${reason}.`,
    todo: "See what is wrong with it, then apply it again or give it up.",
    look: ["queue", "dead", "list"],
  }),
  HANDOFF_FAILED: ({ subject, data: { handoffId, reason, ...facts } }) => ({
    ...(HANDOFF_WORDS[reason] ?? ended)(subject, facts),
    look: reason === "chain_broken" ? ["audit", "verify", subject] : ["handoffs", "show", handoffId],
  }),
  RECOVERY_BLOCKED: ({ subject, data: { reason, class: failureClass, agentId, details, attempts } }) => ({
    what:
      `Task ${subject} is blocked` +
      (failureClass === null ? "" : ` after ${agentId ?? "its agent"} failed`) +
      // Some are blocked for the class itself.
      (failureClass === null || failureClass === reason ? "" : ` (${failureClass})`) +
      `: ${reason.replaceAll("_", " ")}, ${attempts} attempt${attempts === 1 ? "" : "s"} made` +
      (details === null ? "." : `; details: ${sentence(details)}`),
    todo: BLOCKED_WORDS[reason],
    look: ["recovery", "status", subject],
  }),
  SCRUB_FOUND: ({ subject, data: { kind, details } }) => ({
    what: `Stored records of task ${subject} do not verify (${kind}): ${details}.`,
    todo: "Keep the store as it is, see what else is damaged, and bring the task back from a backup.",
    look: ["scrub", "findings"],
  }),
  ATTENTION_LOST: ({ data: { watchdog, heardMs, ofMs } }) => ({
    what: `Watchdog ${watchdog} could hear agents for only ${seconds(heardMs)} of the last ${seconds(ofMs)}: those that fail are noticed late, or not at all.`,
    todo: "Give it a core of its own, start another watchdog on another machine, and look for a flood of heartbeats.",
    look: ["status"],
  }),
};

/** Whatever somebody said ends where it ends, whatever comes behind it. */
const sentence = (text: string): string => (/[.!?…]$/.test(text.trimEnd()) ? text : `${text}.`);

const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;

const unknown = ({ type, id }: ReceivedAlert): Draft => ({
  what: `${type}: this version of Fleet does not know such alerts.`,
  todo: "Look at what it says, with the version that wrote it.",
  look: ["alerts", "show", id, "--json"],
});

/** `fleet`: how the program is called where this is read. */
export function alertText(alert: ReceivedAlert, fleet = "fleet"): AlertText {
  const { what, todo, look } = draftOf(alert);
  const tenant = alert.tenant === DEFAULT_TENANT ? [] : ["--tenant", alert.tenant];
  const called = (words: readonly string[]): string => [fleet, ...words, ...tenant].join(" ");
  return { what, todo, command: called(look), acknowledge: called(["alerts", "ack", alert.id]) };
}

function draftOf(alert: ReceivedAlert): Draft {
  if (!Object.hasOwn(WRITERS, alert.type)) return unknown(alert);
  return (WRITERS[alert.type as AlertType] as Writer<AlertType>)(alert as Alert);
}
