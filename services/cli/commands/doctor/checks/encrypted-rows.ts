// Whether the rows of the store are encrypted, and whether all services agree.

import { conversionEnd, type EncryptionDiagnosis } from "../../../../../shared/protocol/diagnosis.ts";
import { connectionName } from "../../../../../shared/sdk/client/diagnosis.ts";
import { counted } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound, warning } from "../check-outcome.ts";
import type { BusFacts } from "../facts.ts";

/** What the problems mean that have no plain rows. */
const MEANINGS = {
  believes:
    "Until then this service accepts a row without encryption as a record, also one that another program has put into the store.",
  lost: "What these keys encrypt is unreadable, and their tenants may be unable to write.",
  needed: "A root key that is still needed cannot be taken out of use.",
  unrotated: "These tenants keep their former bucket keys, which were to be replaced.",
} as const;

const SET_KEY = "Stop all services, set FLEET_ENCRYPTION_KEY for each, and start them.";

/** `isRequired`: rows that are plain, or of which no service answers, are a failure. */
export function checkRows({ services, unasked }: BusFacts, isRequired = false): readonly CheckOutcome[] {
  const states = services.flatMap(({ diagnosis }) =>
    diagnosis.encryption === undefined
      ? []
      : [{ name: connectionName(diagnosis), engine: diagnosis.store.engine, ...diagnosis.encryption }],
  );
  if (states.length === 0) {
    const problem = unasked?.problem ?? "no service says whether the store is encrypted";
    const required =
      "Ask with the credentials of an operator, while the services run: encryption is required.";
    return [
      isRequired
        ? failed("encryption.rows", problem, unasked?.fix ?? required)
        : notChecked("encryption.rows", problem, unasked?.fix),
    ];
  }
  const off = states.filter(({ state }) => state === "off");
  const [first] = states.filter(({ state }) => state !== "off");
  // Encryption is a choice: without it, the disks or their owner protect the rows.
  if (first === undefined) {
    const plain = "not encrypted by the fleet: FLEET_ENCRYPTION_KEY is not set";
    return [isRequired ? failed("encryption.rows", plain, SET_KEY) : sound("encryption.rows", plain)];
  }
  const differing = [...off.map(({ name }) => unencrypted(name)), ...differentRoots(states)];
  return orSound([...differing, ...unfinished(first), ...notRestarted(services)], () =>
    sound("encryption.rows", encryptedText(first)),
  );
}

function encryptedText(state: EncryptionDiagnosis & { readonly engine: string }): string {
  const end = conversionEnd(state);
  const files = state.engine === "foundationdb" ? "files of the cluster" : "file of the store";
  const before =
    end === null
      ? ""
      : `. Plain bytes from before ${end} may be left in the ${files}, and are in earlier backups: "Encryption of a plain store" in UPGRADES.md removes them`;
  return `all rows with content are encrypted; root key ${state.root_key ?? "unknown"}${before}`;
}

/** Services that believe plain rows until they restart, because they started before the end of a conversion. */
function notRestarted(services: BusFacts["services"]): readonly CheckOutcome[] {
  return services.flatMap(({ diagnosis }) => {
    const { encryption, answered_ms, uptime_ms } = diagnosis;
    const end = encryption === undefined ? null : conversionEnd(encryption);
    if (end === null || answered_ms - uptime_ms >= Date.parse(end)) return [];
    return [
      warning(
        "encryption.rows",
        `${connectionName(diagnosis)} started before the end of the conversion (${end}), and may believe plain rows`,
        "Restart it.",
        MEANINGS.believes,
      ),
    ];
  });
}

const unencrypted = (name: string): CheckOutcome =>
  failed(
    "encryption.rows",
    `${name} does not encrypt the rows that it writes`,
    "Set FLEET_ENCRYPTION_KEY for it as for the others, and restart it.",
  );

function differentRoots(states: readonly EncryptionDiagnosis[]): readonly CheckOutcome[] {
  const roots = new Set(states.flatMap(({ root_key }) => root_key ?? []));
  if (roots.size < 2) return [];
  return [
    warning(
      "encryption.rows",
      `services wrap new keys by ${roots.size} different root keys`,
      "Name the same root key first in FLEET_ENCRYPTION_KEY of every service.",
      MEANINGS.needed,
    ),
  ];
}

function unfinished({
  state,
  bucket_keys_of_other_roots: others = 0,
  bucket_keys_damaged: damaged = 0,
  data_keys_damaged: damagedData = 0,
  tenants_unavailable: unavailable = 0,
  tenants_at_key_limit: full = 0,
}: EncryptionDiagnosis): readonly CheckOutcome[] {
  const problems: CheckOutcome[] = [];
  if (damaged > 0)
    problems.push(
      failed(
        "encryption.rows",
        `${counted(damaged, "bucket key")} cannot be read: another program changed the store`,
        "Run `fleet keys encryption rotate`: each tenant gets a new one, so it can write again. Rows whose keys the damaged ones wrapped need a backup.",
        MEANINGS.lost,
      ),
    );
  if (damagedData > 0)
    problems.push(
      failed(
        "encryption.rows",
        `${counted(damagedData, "data key")} cannot be unwrapped: another program changed the store`,
        "Restore a backup: the rows of these tasks and tenants are unreadable. `fleet scrub findings` names them.",
        MEANINGS.lost,
      ),
    );
  if (unavailable > 0)
    problems.push(
      warning(
        "encryption.rows",
        `the bucket keys of ${counted(unavailable, "tenant")} could not be rotated: a root key cannot be used`,
        "Keep the root key in FLEET_ENCRYPTION_KEY, and check whether its key service answers.",
        MEANINGS.unrotated,
      ),
    );
  if (full > 0)
    problems.push(
      warning(
        "encryption.rows",
        `a rotation gives ${counted(full, "tenant")} no new bucket key: none of the earlier ones could be removed yet`,
        "Make every root key in FLEET_ENCRYPTION_KEY usable, and run `fleet keys encryption rotate` twice: the first rotation removes them.",
        MEANINGS.unrotated,
      ),
    );
  if (others > 0)
    problems.push(
      warning(
        "encryption.rows",
        `${counted(others, "bucket key")} need a root key other than the first one`,
        "A watchdog wraps them again within seconds. Keep the old root key in FLEET_ENCRYPTION_KEY until then.",
        MEANINGS.needed,
      ),
    );
  if (state === "converting")
    problems.push(
      warning(
        "encryption.rows",
        "rows from before the encryption are still plain",
        "A watchdog encrypts them; `fleet keys encryption` shows how far it is.",
      ),
    );
  return problems;
}
