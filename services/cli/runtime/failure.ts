// Turns any exception into a message for operators (the problem, its place and the next step) and an exit code for scripts.

import { BusError } from "../../../shared/bus/bus.ts";
import {
  ERROR_CODES,
  ERROR_TABLE,
  type ErrorBody,
  type ErrorCode,
  FleetError,
} from "../../../shared/protocol/errors.ts";
import { RIGHT_NAMES, RIGHTS, roleOperations } from "../../../shared/protocol/operation-rights.ts";
import type { RemovedCheckpoint } from "../../../shared/protocol/retention.ts";
import { CLIENT_ROLES } from "../../../shared/protocol/roles.ts";
import { SIGNING_REFUSALS } from "../../../shared/protocol/signing-refusal.ts";
import { exitCodes, startupProblemOf } from "../../../shared/runtime/process/startup.ts";
import { NO_ANSWER, REFUSED_CREDENTIALS } from "../../../shared/sdk/request/request.ts";
import { keptHint } from "../rendering/checkpoints/kept-hint.ts";
import { capitalized, plain } from "../rendering/terminal/text.ts";
import { USAGE_EXIT, UsageError } from "./usage.ts";

export interface CallFailure {
  /** The body of an error answer. USAGE, SETTINGS and OUTPUT are found on this machine, and not by the fleet. */
  readonly body: Omit<ErrorBody, "code"> & { readonly code: ErrorCode | "USAGE" | "SETTINGS" | "OUTPUT" };
  readonly exitCode: number;
  /** The next step in one line; empty if there is nothing to add. */
  readonly hint: string;
}

export interface FailureContext {
  /** The address of the bus. */
  readonly url?: string | undefined;
  /** The source of that address, in words. */
  readonly origin?: string | undefined;
  readonly commandId?: string | undefined;
  /** The task in the arguments of the call. */
  readonly taskId?: string | undefined;
  /** The name of the program in printed commands. */
  readonly fleet?: string | undefined;
}

export function callFailureOf(error: unknown, call: FailureContext = {}): CallFailure {
  if (error instanceof UsageError) {
    const body = { code: "USAGE", message: error.message, retryable: false } as const;
    return { body, exitCode: USAGE_EXIT, hint: error.hint };
  }
  const known = error instanceof BusError ? fromBus(error) : error;
  if (known instanceof FleetError) {
    return {
      body: bodyOf(known),
      exitCode: known.exitCode,
      hint: HINTS[known.code](known, { ...call, fleet: call.fleet ?? "fleet" }),
    };
  }
  const problem = startupProblemOf(error);
  if (problem !== undefined) {
    return {
      body: { code: codeOfExit(problem.exitCode), message: problem.text, retryable: false },
      exitCode: problem.exitCode,
      hint: "",
    };
  }
  return callFailureOf(defect(error), call);
}

/** The code of a program that the command ran: the one that the manual lists for its exit code. */
function codeOfExit(exitCode: number): CallFailure["body"]["code"] {
  if (exitCode === USAGE_EXIT) return "USAGE";
  if (exitCode === exitCodes.config) return "SETTINGS";
  if (exitCode === exitCodes.cannotCreate) return "OUTPUT";
  return ERROR_CODES.find((code) => ERROR_TABLE[code].exit === exitCode) ?? "UNAVAILABLE";
}

/** The failure as JSON: the body of an error answer, and the hint. */
export function failureData({ body, hint }: CallFailure): object {
  return hint === "" ? body : { ...body, hint };
}

/** The hint has the next step for an operator; the message has that for a program. */
function bodyOf(error: FleetError): CallFailure["body"] {
  const body = error.toBody();
  const message = [NO_ANSWER, REFUSED_CREDENTIALS].find((problem) => error.message.startsWith(problem));
  return message === undefined ? body : { ...body, message };
}

function fromBus(error: BusError): FleetError {
  const code =
    error.kind === "permission" ? "FORBIDDEN" : error.kind === "too_large" ? "TOO_LARGE" : "UNAVAILABLE";
  return new FleetError(code, error.message, {
    details: { bus: error.kind, ...error.details },
    cause: error,
  });
}

/** A bug in this program: its stack is needed to fix it. */
function defect(error: unknown): FleetError {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return new FleetError("INTERNAL", message, { details: { stack: stack ?? "" } });
}

type HintContext = FailureContext & { readonly fleet: string };

const HINTS: Readonly<Record<ErrorCode, (error: FleetError, call: HintContext) => string>> = {
  INVALID: ({ fields, details }, { fleet }) =>
    fields.some(({ expected }) => expected === "an artifact that is stored")
      ? `Store the file with \`${fleet} artifact put FILE\`, which prints its reference, then repeat this call.`
      : (fileStep(details) ?? "Correct the fields above; --help describes each option."),
  NOT_FOUND: notFound,
  CONFLICT: conflict,
  FINALIZED: (_, { fleet }) => `Write a new checkpoint of the task with \`${fleet} checkpoint\`.`,
  FENCED: ({ details }, call) =>
    `Stop writing to this task. If you own it, give its fence with --fence; \`${call.fleet} fence take ${taskOf(details, call)}\` takes it over.`,
  CORRUPT: ({ details }, call) =>
    "file" in details
      ? `Use another copy of the file, or make it again; \`${call.fleet} export verify\` verifies an export.`
      : "sha256" in details
        ? `Store the same file again with \`${call.fleet} artifact put FILE\`: its bytes replace the lost or damaged ones.`
        : `Use an older checkpoint (\`${call.fleet} checkpoint history ${taskOf(details, call)}\`) and report this to your operator.`,
  TOO_LARGE: ({ details }, { fleet }) =>
    "total_bytes_max" in details
      ? `See with \`${fleet} artifact list\` what the tenant stores. Artifacts without a reference are removed after the grace time; retention removes checkpoints with theirs.`
      : "Keep large files elsewhere and refer to them by path or URL.",
  UNAUTHORIZED: (_, { fleet }) =>
    `Run this as the user of the fleet and with its FLEET_HOME, or set FLEET_NATS_CREDS to a file from \`${fleet} access issue\`.`,
  FORBIDDEN: forbidden,
  UNAVAILABLE: unavailable,
  UNSUPPORTED_VERSION: ({ details }) =>
    typeof details.needed === "string"
      ? `Run the fleet with Node ${details.needed} or newer.`
      : `Use ${details.needs === undefined ? "the version of Fleet that wrote it" : `Fleet ${details.needs}`}, or a newer one.`,
  EXPIRED: ({ details }, call) =>
    `Check in \`${call.fleet} audit show ${taskOf(details, call)}\` whether it was applied; if not, send it again as a new command.`,
  TIMEOUT: timeout,
  INTERNAL: () => "This is a bug in Fleet: please report it with the message above.",
};

function notFound({ details }: FleetError, call: HintContext): string {
  if (typeof details.setting === "string")
    return `Name the identity provider of your people in the file of ${details.setting}, the same for writers and readers: "Electronic signatures of people" in SECURITY.md shows one.`;
  if (details.shred === "approved")
    return `The removal is in progress: \`${call.fleet} task shreds\` shows its state. Ask again when it has ended.`;
  if ("removed" in details) return removedHint(details, call);
  if (details.latest_id === null) return missingCheckpoint(details, call);
  if ("artifacts" in details)
    return `Store these files with \`${call.fleet} artifact put FILE\`, then repeat this call.`;
  return `List what exists with \`${call.fleet} ${listOf(details)}\`, and check --tenant${isOfMission(details) ? " and --agent" : ""}.`;
}

/** What is left of a removed checkpoint, and of its task. */
function removedHint(details: FleetError["details"], call: HintContext): string {
  const { reason } = details.removed as Partial<RemovedCheckpoint>;
  const task = taskOf(details, call);
  return reason === "shredded"
    ? `\`${call.fleet} task show ${task}\` shows the state; when all content is gone, \`${call.fleet} task shred-certificate ${task}\` proves it.`
    : `See what is left with \`${call.fleet} checkpoint history ${task}\`.`;
}

function forbidden({ details }: FleetError, { fleet }: HintContext): string {
  if (typeof details.reason === "string" && Object.hasOwn(SIGNING_REFUSALS, details.reason))
    return signingRefused(details);
  if ("requested_by" in details)
    return `Another person with the role operator or custodian must approve it; \`${fleet} task shreds\` lists what waits.`;
  if (typeof details.operation === "string") return missingRight(details.operation, fleet);
  return details.needed === "person"
    ? "Name yourself with --person instead of --agent and FLEET_AGENT_ID; credentials of an agent may not do this."
    : "Check --tenant and --agent: the credentials are for one tenant, one name and one role.";
}

function signingRefused({ began_as: began, logged_in_as: loggedIn }: FleetError["details"]): string {
  const recorded = "Nothing was signed, and the attempt is recorded.";
  return typeof began === "string" && typeof loggedIn === "string"
    ? `You began as ${plain(began)}, and logged in as ${plain(loggedIn)}. ${recorded} Sign again, and log in as the same person each time.`
    : `${recorded} Remove the cause, then sign again.`;
}

/** The first request of an act, and the operation that stands for its right. */
const BEGINS: Readonly<Record<string, string>> = { "query.signing_request": RIGHTS.sign };

/** The bus compares role, tenant and name with those of the credentials, and does not say which of them differs. */
function missingRight(operation: string, fleet: string): string {
  const right = RIGHT_NAMES.find((name) => RIGHTS[name] === (BEGINS[operation] ?? operation));
  const operations = roleOperations();
  const roles = CLIENT_ROLES.filter((role) => operations[role].includes(operation)).join(", ");
  const listed =
    right === undefined
      ? ""
      : `; on the machine of the fleet, \`${fleet} access matrix --right ${right}\` lists the holders`;
  return `Your credentials lack the right ${right ?? operation}. The roles with it: ${roles || "none"}${listed}. If yours is one of these, check --tenant and --agent: credentials are for one tenant and one name.`;
}

function conflict({ details }: FleetError, call: HintContext): string {
  if (details.recorded_in !== undefined) return otherFleetHint(details, call);
  if (details.setting === "FLEET_ENCRYPTION_KEY")
    return `Encrypt the store first: make a key with \`${call.fleet} keys encryption-key\`, stop all services, set FLEET_ENCRYPTION_KEY for each, and start them.`;
  const step = fileStep(details);
  if (step !== undefined) return step;
  // Before the reasons of the protocol: the reason of a hold is a free text of its user, and may be equal to one of them.
  if ("hold" in details)
    return `The first one stays. To replace its reason, give --hold ${details.hold} and --release ${details.hold} in one call.`;
  const kept = keptHint(details, taskOf(details, call), call.fleet);
  if (kept !== undefined) return kept;
  if (details.shred === "requested") {
    const task = taskOf(details, call);
    return `Another person approves it with \`${call.fleet} task shred-approve ${task}\`; \`${call.fleet} task shred-cancel ${task}\` withdraws it.`;
  }
  return typeof details.alive_until === "string"
    ? `Let it finish, or take the task from it: \`${call.fleet} recovery start ${taskOf(details, call)} --force\`. Add --dry-run to see the effect first.`
    : `Look at the current state (\`${call.fleet} ${stateOf(details, call)}\`), then decide again.`;
}

/** The next step of an error about a file, which the error has in words. */
const fileStep = ({ file, next }: FleetError["details"]): string | undefined =>
  file !== undefined && typeof next === "string" ? `${capitalized(next)}.` : undefined;

/** The recorded fleet is down, or was deleted, while another one has its address. */
function otherFleetHint({ recorded_in: place }: FleetError["details"], call: HintContext): string {
  const home = String(place);
  // A spool is recorded with the fleet of its commands.
  if (!call.origin?.startsWith(`from ${home}`))
    return `Commands in ${home} wait for another fleet than the one${atAddress(call)}: see \`${call.fleet} spool status\`.`;
  return (
    `The fleet${atAddress(call)} is not the one that is recorded in ${home}. Start the recorded one on another port ` +
    `(\`${call.fleet} up --home ${home} --port N\`), or name the fleet that you mean with --url or FLEET_HOME.`
  );
}

/** The task as an argument of a command: from the details of the error, or from the call. */
function taskOf({ task_id: task }: FleetError["details"], { taskId }: HintContext): string {
  return typeof task === "string" ? task : (taskId ?? "<task>");
}

/** The hint for a task that has no checkpoint to continue from. */
function missingCheckpoint(details: FleetError["details"], call: HintContext): string {
  const task = taskOf(details, call);
  return `Write one: \`${call.fleet} checkpoint --task ${task} --type <type> --phase planning --next "Begin"\`, then \`${call.fleet} recovery start ${task}\`.`;
}

/** The command that lists records of the missing kind. */
function listOf(details: FleetError["details"]): string {
  const mission = missionOf(details);
  if ("message_id" in details) return `message read --all${mission}`;
  if ("sortie_id" in details) return `sortie list${mission}`;
  if ("held_by" in details) return `lock list${mission}`;
  if ("checkpoint_id" in details && mission !== "") return `checkpoint list${mission}`;
  if (mission !== "") return "mission list";
  if ("sha256" in details || "upload_id" in details) return "artifact list";
  if ("handoff" in details || "handoff_id" in details) return "handoff list";
  if ("alert_ids" in details) return "alerts list";
  if ("subject" in details) return "signers list";
  if ("shredded_at" in details) return `audit show ${String(details.task_id)}`;
  if ("shred" in details) return "task shreds";
  if ("agent_id" in details) return "agents list";
  if ("key_id" in details) return "keys list";
  if ("seq" in details && typeof details.task_id === "string") return `audit show ${details.task_id}`;
  return "seq" in details ? "queue dead list" : "checkpoint list";
}

const missionOf = ({ mission_id: id }: FleetError["details"]): string =>
  typeof id === "string" ? ` --mission ${id}` : "";

/** A caller sees and changes what its name may in the mission. */
const isOfMission = (details: FleetError["details"]): boolean =>
  ["message_id", "sortie_id", "held_by"].some((member) => member in details);

/** The command that shows what the call did not expect. */
function stateOf(details: FleetError["details"], call: HintContext): string {
  const { handoff_id, mission_id } = details;
  if (typeof handoff_id === "string") return `handoff show ${handoff_id}`;
  if ("message_id" in details || "bytes" in details) return `message list${missionOf(details)}`;
  if ("held_by" in details) return `lock list${missionOf(details)}`;
  if (typeof mission_id === "string") return `mission show ${mission_id}`;
  if ("key_id" in details) return "keys list";
  return `task show ${taskOf(details, call)}`;
}

function unavailable({ details }: FleetError, call: HintContext): string {
  const { fleet } = call;
  if (details.wait_for !== undefined) {
    const through =
      details.indexed_through === undefined ? "" : `: it is complete through ${details.indexed_through}`;
    return `The index has not reached this position, which may not exist yet${through}.`;
  }
  if (details.disk_of !== undefined)
    return `Make room on the disk of the fleet, then try again; \`${fleet} status\` shows its free space.`;
  if (details.spool !== undefined)
    return `Make room in ${details.spool} or set FLEET_SPOOL_DIR, and start a fleet with \`${fleet} up\`.`;
  if (details.file !== undefined)
    return `Make room on the disk of ${details.file}, then continue with \`${fleet} export --resume --out ${details.file}\`.`;
  if (details.issuer !== undefined)
    return "Nothing was signed, and the fleet had answered. Check that this machine reaches the identity provider, and what `problem` says; then repeat the call.";
  if (details.bus === undefined)
    return `The fleet is overloaded or its store is unavailable: try again, and see \`${fleet} status\`.`;
  const where = atAddress(call);
  if (details.certificate !== undefined) {
    return `Set FLEET_NATS_CA to the authority of the fleet${where}, and use a host name that its certificate covers (${details.certificate}).`;
  }
  if (details.bus === "no_responders") {
    return `NATS answers${where}, but no Fleet service does: start the fleet with \`${fleet} up\`, or set FLEET_URL or --url.`;
  }
  return (
    `No fleet answers${where}: start one with \`${fleet} up\`. If it runs in another folder or on another port, give the ` +
    "address of its bus (FLEET_URL, --url) or its folder (FLEET_HOME)."
  );
}

/** The details of a TIMEOUT of a person at a browser: the fleet had answered. */
export const UNANSWERED = { waited_for: "person" } as const;
export const PERSON_WAIT_MINUTES = 10;

function timeout({ details }: FleetError, call: HintContext): string {
  if (details.waited_for === UNANSWERED.waited_for)
    return `Nothing was signed. Repeat the call, and answer at the address that it prints within ${PERSON_WAIT_MINUTES} minutes.`;
  const asked = call.url === undefined ? "" : `The fleet${atAddress(call)} did not answer. `;
  const id = typeof details.command_id === "string" ? details.command_id : call.commandId;
  if (id === undefined)
    return `${asked}Try again with a longer --timeout. After a write, first check whether it was applied (\`${call.fleet} checkpoint list\`).`;
  return `${asked}Send it again with --command-id ${id}: the command is applied at most once, and the answer is its own.`;
}

/** The address of the fleet, and its source. */
function atAddress({ url, origin }: HintContext): string {
  if (url === undefined) return "";
  return ` at ${withoutPassword(url)}${origin === undefined ? "" : ` (${origin})`}`;
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/g, "//…@");
}
