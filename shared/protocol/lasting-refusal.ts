/** Whether a refusal holds for good, so that another copy of the command is refused too, whenever it comes. */
import { FleetError } from "./errors.ts";

/** The state that they name can change: a task loses its owner, a queued command creates what was not found. */
const PASSING: ReadonlySet<string> = new Set(["FENCED", "CONFLICT", "NOT_FOUND", "CORRUPT"]);

export function isLasting({ code, details, fields }: FleetError): boolean {
  if (!PASSING.has(code)) return true;
  // A fence never falls. A command without one is refused only while the task has an owner.
  if (code === "FENCED") return details.given !== null;
  // A version never falls either.
  const version = fields.find(({ path }) => path === "expected_version");
  return code === "CONFLICT" && version !== undefined && Number(version.got) < Number(version.expected);
}

/** Whether another copy of the command, which comes later or is on its way, may be applied although this one was refused. */
export function canPass(refusal: unknown): refusal is FleetError {
  return refusal instanceof FleetError && !refusal.retryable && !isLasting(refusal);
}
