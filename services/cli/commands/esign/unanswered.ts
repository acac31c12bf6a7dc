// A person who does not answer in the browser. The fleet had answered, so the failure must not blame it.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import { PERSON_WAIT_MINUTES, UNANSWERED } from "../../runtime/failure.ts";

export const PERSON_WAIT_MS = PERSON_WAIT_MINUTES * 60_000;

export const unanswered = (text: string): FleetError =>
  new FleetError("TIMEOUT", text, { details: UNANSWERED });
