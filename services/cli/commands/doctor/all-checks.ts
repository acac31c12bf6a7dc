// All checks of `fleet doctor`, in the order in which an operator fixes their problems: first what the others depend on.

import { CHECKS, type CheckCode, type CheckOutcome, notChecked } from "./check-outcome.ts";
import { checkAccessLog } from "./checks/access-log.ts";
import { checkAnchors } from "./checks/anchors.ts";
import { checkBus, checkConnection } from "./checks/bus.ts";
import { checkEncryptedFiles } from "./checks/encrypted-files.ts";
import { checkRows } from "./checks/encrypted-rows.ts";
import { checkEncryption } from "./checks/encryption.ts";
import { checkMachine } from "./checks/machine.ts";
import { checkServices, unreachedServices } from "./checks/services.ts";
import { checkSigning } from "./checks/signing.ts";
import { checkStore } from "./checks/store.ts";
import { type DoctorFacts, isReached } from "./facts.ts";
import type { Requirement } from "./requirements.ts";

/** Without a bus, all that depends on it is not checked. */
export function runChecks(
  facts: DoctorFacts,
  required: readonly Requirement[] = [],
): readonly CheckOutcome[] {
  const { bus, version } = facts;
  const reached = isReached(bus)
    ? [
        ...checkBus(bus),
        ...checkEncryption(bus),
        ...checkRows(bus, required.includes("encryption")),
        ...checkServices(bus, version),
        ...checkSigning(bus, facts),
        ...checkAccessLog(bus, facts),
        checkAnchors(bus),
        ...checkStore(bus),
      ]
    : [...unreachedServices(facts), ...unreachedBus(bus.problem)];
  return [...checkConnection(facts), ...reached, ...checkEncryptedFiles(facts), ...checkMachine(facts)];
}

function unreachedBus(problem: string): readonly CheckOutcome[] {
  const codes = (Object.keys(CHECKS) as CheckCode[]).filter((code) =>
    /^(?:bus\.(?!connection)|encryption\.(?!store|files)|signing\.|access\.|store\.(?!cluster))/.test(code),
  );
  return codes.map((code) => notChecked(code, problem));
}
