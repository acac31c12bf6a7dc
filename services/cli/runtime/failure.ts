// From anything thrown to what a person and a script need: what is wrong, where, what to do next, and an exit code.

import { BusError } from "../../../shared/bus/bus.ts";
import { type ErrorBody, type ErrorCode, FleetError } from "../../../shared/protocol/errors.ts";
import { exitCodes, startupProblemOf } from "../../../shared/runtime/process/startup.ts";
import { USAGE_EXIT, UsageError } from "./usage.ts";

export interface CallFailure {
  /** As in an error answer; USAGE and SETTINGS are found here, before anything was asked. */
  readonly body: Omit<ErrorBody, "code"> & { readonly code: ErrorCode | "USAGE" | "SETTINGS" };
  readonly exitCode: number;
  /** What to do next, in one line; empty when there is nothing to add. */
  readonly hint: string;
}

export interface FailureContext {
  /** The address of the bus that was asked. */
  readonly url?: string | undefined;
  /** Where that address was found, in words. */
  readonly origin?: string | undefined;
  readonly commandId?: string | undefined;
  /** The task that the call named. */
  readonly taskId?: string | undefined;
  /** How the program is called here. */
  readonly fleet?: string | undefined;
}

export function callFailureOf(error: unknown, place: FailureContext = {}): CallFailure {
  if (error instanceof UsageError) {
    const body = { code: "USAGE", message: error.message, retryable: false } as const;
    return { body, exitCode: USAGE_EXIT, hint: error.hint };
  }
  const known = error instanceof BusError ? fromBus(error) : error;
  if (known instanceof FleetError) {
    return {
      body: known.toBody(),
      exitCode: known.exitCode,
      hint: HINTS[known.code](known, { ...place, fleet: place.fleet ?? "fleet" }),
    };
  }
  const problem = startupProblemOf(error);
  if (problem !== undefined) {
    const code = problem.exitCode === exitCodes.config ? "SETTINGS" : "UNAVAILABLE";
    return {
      body: { code, message: problem.text, retryable: false },
      exitCode: problem.exitCode,
      hint: "",
    };
  }
  return callFailureOf(defect(error), place);
}

/** The error as JSON: the body of an error answer, and what to do next. */
export function failureData({ body, hint }: CallFailure): object {
  return hint === "" ? body : { ...body, hint };
}

function fromBus(error: BusError): FleetError {
  const code =
    error.kind === "permission" ? "FORBIDDEN" : error.kind === "too_large" ? "TOO_LARGE" : "UNAVAILABLE";
  return new FleetError(code, error.message, {
    details: { bus: error.kind, ...error.details },
    cause: error,
  });
}

/** A mistake of the program itself: its stack is what somebody needs to mend it. */
function defect(error: unknown): FleetError {
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return new FleetError("INTERNAL", message, { details: { stack: stack ?? "" } });
}

type Place = FailureContext & { readonly fleet: string };

const HINTS: Readonly<Record<ErrorCode, (error: FleetError, place: Place) => string>> = {
  INVALID: () => "Correct what is named above; --help shows what each option takes.",
  NOT_FOUND: ({ details }, place) =>
    details.latest_id === null
      ? unwritten(details, place)
      : `See what there is with \`${place.fleet} ${listOf(details)} list\`, and that --tenant is right.`,
  CONFLICT: ({ details }, place) =>
    typeof details.alive_until === "string"
      ? `Let it go on, or take the task from it: \`${place.fleet} recover ${taskOf(details, place)} --force\`; --dry-run says first what that does.`
      : `Look at the state as it is now (\`${place.fleet} ${typeof details.handoff_id === "string" ? `handoffs show ${details.handoff_id}` : `task show ${taskOf(details, place)}`}\`), then decide again.`,
  FINALIZED: (_, { fleet }) => `Write a new checkpoint of the task with \`${fleet} checkpoint\`.`,
  FENCED: ({ details }, place) =>
    `Stop writing to this task. If it is yours, give its fence with --fence; \`${place.fleet} fence take ${taskOf(details, place)}\` takes it over.`,
  CORRUPT: ({ details }, place) =>
    `Use an older checkpoint (\`${place.fleet} checkpoints history ${taskOf(details, place)}\`) and tell your operator.`,
  TOO_LARGE: () => "Keep artifacts elsewhere and refer to them by path or address.",
  UNAUTHORIZED: () => "Check the credentials in FLEET_URL.",
  FORBIDDEN: () => "Check --tenant and --agent; the credentials may act for these only.",
  UNAVAILABLE: unavailable,
  UNSUPPORTED_VERSION: () => "Upgrade Fleet here to the version that wrote it.",
  EXPIRED: ({ details }, place) =>
    `See in \`${place.fleet} audit show ${taskOf(details, place)}\` whether it was applied; if not, send it again as a new command.`,
  TIMEOUT: timeout,
  INTERNAL: () => "This is a fault of Fleet: please report it with what stands above.",
};

/** As a command's argument; of services' details. */
function taskOf({ task_id: task }: FleetError["details"], { taskId }: Place): string {
  return typeof task === "string" ? task : (taskId ?? "<task>");
}

/** Of a task that cannot go on before somebody has written what there is to do. */
function unwritten(details: FleetError["details"], place: Place): string {
  const task = taskOf(details, place);
  return `Write one: \`${place.fleet} checkpoint --task ${task} --type <type> --phase planning --next "Begin"\`, then \`${place.fleet} recover ${task}\`.`;
}

/** The command that lists what was looked for. */
function listOf(details: FleetError["details"]): string {
  if ("handoff" in details || "handoff_id" in details) return "handoffs";
  if ("alert_ids" in details) return "alerts";
  return "seq" in details ? "queue dead" : "checkpoints";
}

function unavailable({ details }: FleetError, place: Place): string {
  const { fleet } = place;
  if (details.wait_for !== undefined) {
    const through =
      details.indexed_through === undefined ? "" : `: it is complete through ${details.indexed_through}`;
    return `The index has not reached this position, which may not exist yet${through}.`;
  }
  if (details.spool !== undefined)
    return `Make room in ${details.spool} or set FLEET_SPOOL_DIR, and start a fleet with \`${fleet} up\`.`;
  if (details.bus === undefined)
    return `The fleet is overloaded or its store is away: try again, see \`${fleet} status\`.`;
  const where = at(place);
  if (details.bus === "no_responders") {
    return `NATS answers${where}, but no Fleet service does: start the fleet with \`${fleet} up\`, or set FLEET_URL / --url.`;
  }
  return (
    `No fleet answers${where}: start one with \`${fleet} up\`. Of one that runs in another folder or on another port, give the address ` +
    "that it printed as its bus (FLEET_URL, --url) or its folder (FLEET_HOME)."
  );
}

function timeout({ details }: FleetError, place: Place): string {
  const asked = place.url === undefined ? "" : `Nothing came from the fleet${at(place)}. `;
  const id = typeof details.command_id === "string" ? details.command_id : place.commandId;
  if (id === undefined)
    return `${asked}Try again with a longer --timeout; after a write, first look whether it was done (\`${place.fleet} checkpoints list\`).`;
  return `${asked}Ask again with --command-id ${id}: it is done at most once, and the answer will be its own.`;
}

/** Which fleet was asked, and who said so. */
function at({ url, origin }: Place): string {
  if (url === undefined) return "";
  return ` at ${withoutPassword(url)}${origin === undefined ? "" : ` (${origin})`}`;
}

function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/g, "//…@");
}
