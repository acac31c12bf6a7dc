/**
 * The words of an alert for an operator: the event, the next step, and the command to start with. One pure
 * function for terminals and webhooks. It reads nothing but the alert, and loads no schemas.
 */

import type { Alert, AlertType, ReceivedAlert } from "./alerts.ts";
import type { HandoffFailure } from "./handoff-states.ts";
import { DEFAULT_TENANT } from "./ids.ts";
import { principalLabel } from "./principal.ts";
import { type BlockReason, NOT_STARTED_PREFIX } from "./recovery-states.ts";
import { SIGNING_REFUSALS } from "./signing-refusal.ts";
import { STREAMS } from "./subjects.ts";

export interface AlertText {
  /** A sentence that describes the event. */
  readonly what: string;
  /** A sentence that says what to do. */
  readonly todo: string;
  /** A shell command that shows more and changes nothing. */
  readonly command: string;
  /** The shell command that acknowledges the alert. */
  readonly acknowledge: string;
}

type Draft = Pick<AlertText, "what" | "todo"> & {
  /** The arguments of the command that shows more. */
  readonly look: readonly string[];
};

type Writer<T extends AlertType> = (alert: Alert<T>) => Draft;

type HandoffWords = (
  task: string,
  data: Pick<Alert<"HANDOFF_FAILED">["data"], "toAgentType" | "acceptedBy" | "recoveryAttempt">,
) => Pick<Draft, "what" | "todo">;

const ended: HandoffWords = (task) => ({
  what: `A handoff of task ${task} failed.`,
  todo: "Find out why it ended.",
});

const SHREDDING_WORDS: Readonly<
  Record<Alert<"SHREDDING_BLOCKED">["data"]["reason"], Pick<Draft, "what" | "todo">>
> = {
  held: {
    what: "a hold keeps it",
    todo: "Release the hold when its reason is gone: the shredding then continues by itself.",
  },
  promised: {
    what: "its retention policy or the floor of the tenant has come to keep a checkpoint",
    todo: "Wait until the promised time is over, or correct the policy of the fleet: the shredding then continues by itself.",
  },
  damaged: {
    what: "one of its records is damaged",
    todo: "Find the damaged record with a scrub, and restore it: the shredding then continues by itself.",
  },
};

const HANDOFF_WORDS: Readonly<Record<HandoffFailure, HandoffWords>> = {
  hash_broken: (task) => ({
    what: `Task ${task} is blocked: the checkpoint to hand over is corrupt.`,
    todo: "Hand the task over from a sound checkpoint (handoff --checkpoint), or take it and write a new one.",
  }),
  chain_broken: (task) => ({
    what: `Task ${task} is blocked: an ancestor of its checkpoint, or its audit trail, is corrupt.`,
    todo: "Find out what is damaged before an agent continues the task.",
  }),
  agent_type_unknown: (task, { toAgentType: type }) => ({
    what: `Task ${task} is blocked: it was handed to an agent type that does not exist${type === undefined ? "" : `, ${type}`}.`,
    todo: "Hand it to an existing type (handoff --to), or add the type to FLEET_AGENT_TYPES.",
  }),
  no_agent: (task, { toAgentType: type, recoveryAttempt: attempt }) => ({
    what:
      `Task ${task} is blocked: no agent${type === undefined ? "" : ` of type ${type}`} accepted any of its offers in time` +
      (attempt === undefined ? "." : `, at recovery attempt ${attempt}.`),
    todo:
      `Start an agent of ${type === undefined ? "the type that it was offered to" : `type ${type}`}, ` +
      `then offer the task again (${attempt === undefined ? "recovery run, or else handoff" : "recovery run"}).`,
  }),
  no_first_checkpoint: (task, { acceptedBy }) => ({
    what:
      acceptedBy === undefined
        ? `The agent that accepted task ${task} wrote no checkpoint in time.`
        : `Agent ${acceptedBy} accepted task ${task} but wrote no checkpoint in time.`,
    todo: "Check which agent owns the task, and whether it is alive.",
  }),
  prompt_over_budget: (task) => ({
    what: `Task ${task} is blocked: no prompt for the next agent fits the policy's budget.`,
    todo: "Raise offer.prompt_tokens in the policy (FLEET_POLICY), then hand the task over again.",
  }),
  superseded: ended,
  taken: ended,
  task_ended: ended,
  withdrawn: ended,
  agent_failed: ended,
};

/** The next step for the operator of a blocked task. Commands stand in parentheses, without the program's name. */
export const BLOCKED_WORDS: Readonly<Record<BlockReason, string>> = {
  attempts_spent:
    "Every attempt of the policy failed. Find out why, then restore its budget (recovery reset).",
  too_many_attempts:
    "It was recovered too often in a short time. Find out why, then restore its budget (recovery reset).",
  unrecoverable:
    "Another attempt would fail in the same way. Fix the cause, then restore its budget (recovery reset).",
  chain_broken:
    "Its chain of checkpoints or its audit trail is corrupt. Choose where it continues (recover --from), or take it.",
  no_checkpoint: "There is no checkpoint to continue from. Take the task, or start it again.",
  no_agent: "No agent accepted it. Start an agent of its type, then run the recovery again (recovery run).",
  agent_type_unknown:
    "It was handed to an agent type that does not exist. Let an existing type continue it (recover --to), or add the type to FLEET_AGENT_TYPES.",
  prompt_over_budget:
    "No prompt for the next agent fits the policy's budget. Raise offer.prompt_tokens in the policy (FLEET_POLICY), then run the recovery again (recovery run).",
  withdrawn:
    "Its handoff was cancelled, and it has no owner. Take it, or let another agent continue (recovery run).",
  checkpoint_corrupt:
    "The checkpoint of its handoff is corrupt. The watchdogs continue from an earlier one; look again in a minute.",
};

type BlockedWriter = (task: string, data: Alert<"RECOVERY_BLOCKED">["data"]) => Pick<Draft, "what" | "todo">;

const blockedAfter: BlockedWriter = (task, { reason, class: failureClass, agentId, details, attempts }) => ({
  what:
    `Task ${task} is blocked` +
    (failureClass === null ? "" : ` after ${agentName(agentId)} failed`) +
    // For some blocks the class is the reason.
    (failureClass === null || failureClass === reason ? "" : ` (${failureClass})`) +
    `: ${reason.replaceAll("_", " ")}, ${attemptsMade(attempts)}` +
    (details === null ? "." : `; details: ${sentence(details)}`),
  todo: BLOCKED_WORDS[reason],
});

/** The reasons after which the cause decides what to do. */
const SPENT: ReadonlySet<BlockReason> = new Set(["attempts_spent", "too_many_attempts", "unrecoverable"]);

/** No agent ever ran, so the reason why it did not start stands first. */
const notStarted: BlockedWriter = (task, { reason, agentId, details, attempts }) => {
  const why = details?.startsWith(NOT_STARTED_PREFIX) ? details.slice(NOT_STARTED_PREFIX.length) : details;
  return {
    what:
      `Task ${task} is blocked: ${agentName(agentId)} could not be started` +
      (why === null ? "" : `: ${why}`) +
      `; ${reason.replaceAll("_", " ")}, ${attemptsMade(attempts)}.`,
    todo: SPENT.has(reason)
      ? "Install the program, or correct the settings of its runner, then restore the budget of the task (recovery reset)."
      : BLOCKED_WORDS[reason],
  };
};

const agentName = (agentId: string | null): string =>
  agentId === null ? "its agent" : principalLabel(agentId);

const attemptsMade = (attempts: number): string => `${attempts} attempt${attempts === 1 ? "" : "s"} made`;

/** Complete by compilation: a type of alert without words is a type error. */
const WRITERS: { readonly [T in AlertType]: Writer<T> } = {
  COMMAND_DEAD: ({ subject, data: { reason } }) => ({
    what: `A queued command of task ${subject} could not be applied: ${reason}.`,
    todo: "Find out what is wrong with it, then retry or drop it.",
    look: ["queue", "dead", "list"],
  }),
  HANDOFF_FAILED: ({ subject, data: { handoffId, reason, ...facts } }) => ({
    ...(HANDOFF_WORDS[reason] ?? ended)(subject, facts),
    look: reason === "chain_broken" ? ["audit", "verify", subject] : ["handoff", "show", handoffId],
  }),
  RECOVERY_BLOCKED: ({ subject, data }) => ({
    ...(data.class === "not_started" ? notStarted(subject, data) : blockedAfter(subject, data)),
    look: ["recovery", "show", subject],
  }),
  SCRUB_FOUND: ({ subject, data: { kind, details } }) => ({
    what: `Stored records of task ${subject} are corrupt (${kind}): ${details}.`,
    todo:
      kind === "artifact"
        ? "Look for the file, and store it again: that replaces lost or damaged bytes."
        : "Leave the store as it is, see what else is damaged, and restore the task from a backup.",
    look: ["scrub", "findings"],
  }),
  SIGN_ATTEMPT_FAILED: ({ subject, data: { caller, reason } }) => ({
    what: `An attempt of ${principalLabel(caller)} to sign a checkpoint of task ${subject} was refused: ${SIGNING_REFUSALS[reason] ?? reason}.`,
    todo: "Ask the person. If it was another one, revoke the signer and the credentials of the caller.",
    look: ["audit", "tenant"],
  }),
  SHREDDING_BLOCKED: ({ subject, data: { reason } }) => ({
    what: `The content of task ${subject} is still there, although two persons have approved that it is shredded: ${SHREDDING_WORDS[reason].what}.`,
    todo: SHREDDING_WORDS[reason].todo,
    look: ["task", "show", subject],
  }),
  ATTENTION_LOST: ({ data: { watchdog, heardMs, ofMs } }) => ({
    what: `Watchdog ${watchdog} could observe agents for only ${seconds(heardMs)} of the last ${seconds(ofMs)}: failures are detected late, or not at all.`,
    todo: "Give it a core of its own, start another watchdog on another machine, and look for a flood of heartbeats.",
    look: ["status"],
  }),
  DEAD_LETTERS_FULL: ({ data: { letters, bytesMax } }) => ({
    what: `The stream of dead letters is full (${letters} letters, limit ${mebibytes(bytesMax)}): queued commands wait behind a command that cannot be applied.`,
    todo: "Retry or drop dead letters until there is room. No command is lost.",
    look: ["queue", "dead", "list"],
  }),
  STREAM_NEARLY_FULL: ({ data: { stream, messages, bytes, bytesMax } }) =>
    stream === STREAMS.dead
      ? {
          what: `The stream of dead letters is nearly full (${messages} letters, ${percent(bytes, bytesMax)} of ${mebibytes(bytesMax)}).`,
          todo: "Retry or drop dead letters before queued commands have to wait for room.",
          look: ["queue", "dead", "list"],
        }
      : {
          what: `The queue is nearly full (${messages} commands, ${percent(bytes, bytesMax)} of ${mebibytes(bytesMax)}): a full queue refuses commands.`,
          todo: "Find out why commands are not applied: no writer runs, or the store is unavailable.",
          look: ["queue", "status"],
        },
  DISK_NEARLY_FULL: ({ data: { host, diskOf, path, freeBytes, totalBytes, minFreeBytes } }) => ({
    what: `The disk of the ${diskOf.join(" and the ")} on ${host} (${path}) has ${mebibytes(freeBytes)} of ${mebibytes(totalBytes)} free: below ${mebibytes(minFreeBytes)}, commands are refused.`,
    todo: "Make room on it, or enlarge it. Everything that was acknowledged is kept.",
    look: ["status"],
  }),
};

const percent = (part: number, whole: number): string => `${Math.floor((100 * part) / whole)} %`;

/** Ends an agent's own words like a sentence, so that the next sentence starts clearly. */
const sentence = (text: string): string => (/[.!?…]$/.test(text.trimEnd()) ? text : `${text}.`);

const mebibytes = (bytes: number): string => `${Math.round(bytes / 1_048_576)} MiB`;

const seconds = (ms: number): string => `${Math.round(ms / 1_000)} s`;

const unknown = ({ type, id }: ReceivedAlert): Draft => ({
  what: `${type}: this version of Fleet does not know this type of alert.`,
  todo: "Read it with the version of Fleet that wrote it.",
  look: ["alerts", "show", id, "--json"],
});

/** The words for one alert. `fleet` is the name of the program where they are read. */
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
