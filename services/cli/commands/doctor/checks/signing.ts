// Checks of signing: the keys of the services and their files, and what the registry of the store says about keys and signatures.

import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import {
  EXPOSED_KEY_MODE,
  hasBegun,
  keyStateOf,
  registeredMs,
  type SigningKeyList,
  type SigningKeyRecord,
} from "../../../../../shared/protocol/signing-keys.ts";
import { shellWord } from "../../../../../shared/runtime/process/installation.ts";
import { connectionName, type ServiceDiagnosis } from "../../../../../shared/sdk/client/diagnosis.ts";
import { shortKeyId } from "../../../rendering/keys/signing-keys.ts";
import { counted } from "../../../rendering/terminal/text.ts";
import {
  type CheckCode,
  type CheckOutcome,
  failed,
  notChecked,
  orSound,
  sound,
  warning,
} from "../check-outcome.ts";
import type { BusFacts, DoctorFacts, Obstacle } from "../facts.ts";

const DAY_MS = 86_400_000;
/** Holders replace a key within seconds. */
const REPLACED_WITHIN_MS = 30_000;

/** A service with its key; `id` null: it has none. */
interface Holder {
  readonly name: string;
  readonly id: string | null;
  readonly file: string | null;
  readonly mode: number | null;
}

export function checkSigning(bus: BusFacts, facts: DoctorFacts): readonly CheckOutcome[] {
  const holders = bus.services.flatMap(holderOf);
  const registry = bus.signingKeys;
  const ofServices =
    holders.length > 0
      ? [...checkServices(holders), ...checkFiles(holders)]
      : unanswered(bus, ["signing.services", "signing.files"]);
  if (isObstacle(registry))
    return [
      ...ofServices,
      ...(["signing.required", "signing.keys"] as const).map((code) =>
        notChecked(code, registry.problem, registry.fix),
      ),
    ];
  const isAnswered = bus.unasked === null && bus.services.length > 0;
  return [
    ...ofServices,
    checkRequired(registry.signatures_required),
    ...checkKeys(registry.keys, { ...facts, holders: isAnswered ? holders : null }),
  ];
}

const isObstacle = (registry: SigningKeyList | Obstacle): registry is Obstacle => !("keys" in registry);

/** A service of an older version says nothing about its key. */
function holderOf({ diagnosis }: ServiceDiagnosis): Holder[] {
  const { signing } = diagnosis;
  if (signing === undefined) return [];
  return [
    { name: connectionName(diagnosis), id: signing.key_id, file: signing.file, mode: signing.file_mode },
  ];
}

function unanswered({ unasked, services }: BusFacts, codes: readonly CheckCode[]): CheckOutcome[] {
  const otherwise =
    services.length === 0 ? "no service answers" : "the services are of an older version, which does not say";
  return codes.map((code) => notChecked(code, unasked?.problem ?? otherwise, unasked?.fix));
}

function checkServices(holders: readonly Holder[]): readonly CheckOutcome[] {
  const unsigned = holders.filter(({ id }) => id === null);
  const byKey = new Map<string, Holder[]>();
  for (const holder of holders)
    if (holder.id !== null) byKey.set(holder.id, [...(byKey.get(holder.id) ?? []), holder]);
  const [key] = byKey.keys();
  const give =
    "Give it the key of the others with FLEET_SIGNING_KEY, and restart it; make one with `umask 077; openssl genpkey -algorithm ed25519 -out FILE`.";
  const problems = [
    ...(unsigned.length === 0
      ? []
      : [warning("signing.services", `without a signing key: ${namesOf(unsigned)}`, give)]),
    ...(byKey.size > 1 ? [differing(byKey)] : []),
  ];
  return orSound(problems, () =>
    sound("signing.services", `${counted(holders.length, "instance")} with key ${shortKeyId(key ?? "")}`),
  );
}

function differing(byKey: ReadonlyMap<string, readonly Holder[]>): CheckOutcome {
  const list = [...byKey].map(([id, holders]) => `${shortKeyId(id)} of ${namesOf(holders)}`);
  return warning(
    "signing.services",
    `the services have different signing keys: ${list.join("; ")}`,
    "During a rotation this lasts seconds. Otherwise give all services one file in FLEET_SIGNING_KEY, restart those with another one, and revoke its key: `fleet keys revoke KEY --reason replaced`.",
  );
}

const namesOf = (holders: readonly Holder[]): string => holders.map(({ name }) => name).join(", ");

function checkFiles(holders: readonly Holder[]): readonly CheckOutcome[] {
  const signing = holders.filter(({ id }) => id !== null);
  if (signing.length === 0) return [notChecked("signing.files", "no service has a signing key")];
  const problems = signing.flatMap(({ name, id, file, mode }): CheckOutcome[] => {
    const path = shellWord(file ?? "");
    if (mode === null) {
      const found = `${name} cannot read the file of its signing key any more: ${file}`;
      const fix =
        "Put the file back, or a new key in its place, which the service goes over to. Without it the service does not start again.";
      return [failed("signing.files", found, fix)];
    }
    if ((mode & EXPOSED_KEY_MODE) === 0) return [];
    const shown = mode.toString(8).padStart(4, "0");
    const fix = `\`chmod 600 ${path}\` on its machine, then \`fleet keys revoke ${shortKeyId(id ?? "")} --reason compromised\`: others may have copied the key. The service goes over to a new one.`;
    return [failed("signing.files", `${file} of ${name} has mode ${shown}: others can use the key`, fix)];
  });
  return orSound(problems, () =>
    sound("signing.files", `closed to others on ${counted(signing.length, "instance")}`),
  );
}

function checkRequired(isRequired: boolean): CheckOutcome {
  if (isRequired) return sound("signing.required", "the store requires that every entry is signed");
  return warning(
    "signing.required",
    "the store does not require signatures: an entry without one is no finding",
    "An older version began the store, or services without a key. Give every service a key, `fleet export` the tasks, and `fleet import` them into a new store.",
  );
}

interface KeyFacts {
  readonly program: string;
  readonly nowMs: number;
  /** null: the services could not be asked. */
  readonly holders: readonly Holder[] | null;
}

function checkKeys(keys: readonly SigningKeyRecord[], facts: KeyFacts): readonly CheckOutcome[] {
  const active = keys.filter((key) => keyStateOf(key) === "active");
  if (active.length === 0)
    return [notChecked("signing.keys", "no key is in use: services sign with FLEET_SIGNING_KEY")];
  const problems = active.flatMap(
    (key) =>
      ahead(key, facts) ?? unreplaced(key, facts) ?? replaced(key, keys, facts) ?? aged(key, facts) ?? [],
  );
  return orSound(problems, () => {
    const oldest = Math.min(...active.map(registeredMs));
    return sound(
      "signing.keys",
      `${counted(active.length, "key")} in use, the oldest ${ageText(oldest, facts)} old`,
    );
  });
}

const ageText = (sinceMs: number, { nowMs }: KeyFacts): string =>
  counted(Math.max(0, Math.floor((nowMs - sinceMs) / DAY_MS)), "day");

/** A commit with it would have a time before its begin. */
function ahead(key: SigningKeyRecord, { nowMs }: KeyFacts): CheckOutcome | null {
  if (hasBegun(key, nowMs)) return null;
  return warning(
    "signing.keys",
    `key ${shortKeyId(key.key_id)} of ${key.owner} begins at ${key.not_before}, ahead of this clock`,
    "A clock was ahead when the key was registered, or this one is behind. Run `date -u` on the machine of each service, and set wrong clocks right. A service whose clock is before the begin goes over to another key.",
    "A signature of a time before the begin of its key is rejected, so services with other clocks cannot share this key.",
  );
}

/** A service whose clock was before the begin of the key has gone over to the next one, and has left this one in use. */
function replaced(
  key: SigningKeyRecord,
  keys: readonly SigningKeyRecord[],
  { holders, program }: KeyFacts,
): CheckOutcome | null {
  const next = keys.find(({ replaces }) => replaces === key.key_id);
  if (next === undefined || holders === null || holders.some(({ id }) => id === key.key_id)) return null;
  const id = shortKeyId(key.key_id);
  return warning(
    "signing.keys",
    `key ${id} of ${key.owner} is still in use, though ${shortKeyId(next.key_id)} has replaced it and no running service has it`,
    `\`${program} keys revoke ${id} --reason replaced\`, with all clocks right, and after the time of the last entry that it has signed.`,
  );
}

function aged(key: SigningKeyRecord, facts: KeyFacts): CheckOutcome | null {
  if (facts.nowMs - registeredMs(key) < LIMITS.signing_key_age_ms_warn) return null;
  const id = shortKeyId(key.key_id);
  return warning(
    "signing.keys",
    `key ${id} of ${key.owner} is ${ageText(registeredMs(key), facts)} old`,
    `\`${facts.program} keys rotate ${id}\`: its holders go over to the next key while they run.`,
  );
}

/** An operator has requested the next key, and the holders of this one have not made it. */
function unreplaced(key: SigningKeyRecord, { holders, nowMs, program }: KeyFacts): CheckOutcome | null {
  const { key_id, owner, rotation_requested_at: at } = key;
  if (at === null || nowMs - Date.parse(at) < REPLACED_WITHIN_MS) return null;
  const id = shortKeyId(key_id);
  const found = `the rotation of key ${id} of ${owner} was requested at ${at}, and was not made`;
  const own = holders?.filter((holder) => holder.id === key_id) ?? [];
  if (own.length > 0)
    return warning(
      "signing.keys",
      `${found} by ${namesOf(own)}`,
      `Its log says why: it cannot read ${own[0]?.file}, or write beside it. Put a new key into the file, which it goes over to.`,
    );
  return warning(
    "signing.keys",
    `${found}${holders === null ? "" : ": no running service has it"}`,
    `Start the service that has the key, or \`${program} keys revoke ${id} --reason lost\`.`,
  );
}
