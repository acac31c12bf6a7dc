/**
 * Commands whose outcome is open. An attempt without an answer may have put the command into the queue. If a repetition is refused, the queued
 * copy may still be applied, once the reason of the refusal has passed: the task has lost its owner, or an earlier command is applied.
 */
import { FleetError } from "../../protocol/errors.ts";

const REMEMBERED_MAX = 10_000;

/** The error of a refusal after an attempt of unknown outcome: TIMEOUT where the outcome stays open, otherwise the refusal. */
export function refusedLater(refusal: FleetError): FleetError {
  if (!mayPass(refusal)) return refusal;
  return new FleetError(
    "TIMEOUT",
    "a repetition was refused, but an earlier attempt may still be carried out; the outcome is not known",
    { fields: refusal.fields, details: { ...refusal.details, refused: refusal.code }, cause: refusal },
  );
}

function mayPass({ code, details, fields }: FleetError): boolean {
  // A fence never falls, but a command without one is refused only while the task has an owner.
  if (code === "FENCED") return details.given === null;
  if (code !== "CONFLICT") return code === "NOT_FOUND" || code === "CORRUPT" || code === "EXPIRED";
  const version = fields.find(({ path }) => path === "expected_version");
  // A version never falls either.
  return version === undefined || !(Number(version.got) < Number(version.expected));
}

/** The ids of the commands of this process that ended with TIMEOUT, because the caller may repeat them. */
export class OpenCommands {
  readonly #ids = new Set<string>();

  has(commandId: string): boolean {
    return this.#ids.has(commandId);
  }

  /** Notes how an attempt of the command ended; undefined: with an answer. */
  ended(commandId: string, error: unknown): void {
    if (!(error instanceof FleetError) || error.code !== "TIMEOUT") this.#ids.delete(commandId);
    else {
      if (this.#ids.size >= REMEMBERED_MAX) this.#ids.delete(this.#ids.values().next().value as string);
      this.#ids.add(commandId);
    }
  }
}
