// Encryption at rest of what a standalone fleet keeps on this machine beside the rows of its store.

import { type CheckOutcome, failed, orSound, sound } from "../check-outcome.ts";
import { type DoctorFacts, isReached } from "../facts.ts";

const CODE = "encryption.files";
const FIX =
  "Set FLEET_ENCRYPTION_KEY for every process of the fleet, and start it again: what is there is encrypted then.";

/** Nothing on a machine without a fleet's folder. */
export function checkEncryptedFiles({ bus, machine }: DoctorFacts): readonly CheckOutcome[] {
  const { home, parts } = machine;
  if (home === null) return [];
  const states = isReached(bus) ? bus.services.map(({ diagnosis }) => diagnosis.encryption?.state) : [];
  const hasEncryptedRows = states.some((state) => state !== undefined && state !== "off");
  const encrypted = parts.filter((part) => part.isEncrypted).map(({ name }) => name);
  if (encrypted.length === 0 && !hasEncryptedRows)
    return [sound(CODE, "nothing of this fleet is encrypted at rest, and nothing asks for it")];
  const problems = parts
    .filter((part) => !part.isEncrypted)
    .map(({ name, path }) => failed(CODE, `${name} in ${path} are not encrypted, and other parts are`, FIX));
  return orSound(problems, () => sound(CODE, `encrypted on this machine: ${encrypted.join(", ")}`));
}
