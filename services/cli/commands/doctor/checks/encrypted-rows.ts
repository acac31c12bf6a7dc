// Whether the rows of the store are encrypted, and whether all services agree.

import { connectionName } from "../../../../../shared/sdk/client/diagnosis.ts";
import { counted } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, failed, notChecked, orSound, sound, warning } from "../check-outcome.ts";
import type { BusFacts } from "../facts.ts";

export function checkRows({ services, unasked }: BusFacts): readonly CheckOutcome[] {
  const states = services.flatMap(({ diagnosis }) =>
    diagnosis.encryption === undefined ? [] : [{ name: connectionName(diagnosis), ...diagnosis.encryption }],
  );
  if (states.length === 0)
    return [
      notChecked(
        "encryption.rows",
        unasked?.problem ?? "no service says whether the store is encrypted",
        unasked?.fix,
      ),
    ];
  const off = states.filter(({ state }) => state === "off");
  const [first] = states.filter(({ state }) => state !== "off");
  // Encryption is a choice: without it, the disks or their owner protect the rows.
  if (first === undefined)
    return [sound("encryption.rows", "not encrypted by the fleet: FLEET_ENCRYPTION_KEY is not set")];
  const roots = new Set(states.flatMap(({ root_key }) => root_key ?? []));
  const { bucket_keys_of_other_roots: others = 0, state } = first;
  return orSound(
    [
      ...off.map(({ name }) =>
        failed(
          "encryption.rows",
          `${name} does not encrypt the rows that it writes`,
          "Set FLEET_ENCRYPTION_KEY for it as for the others, and restart it.",
        ),
      ),
      ...(roots.size > 1
        ? [
            warning(
              "encryption.rows",
              `services wrap new keys by ${roots.size} different root keys`,
              "Name the same root key first in FLEET_ENCRYPTION_KEY of every service.",
            ),
          ]
        : []),
      ...(others > 0
        ? [
            warning(
              "encryption.rows",
              `${counted(others, "bucket key")} need a root key other than the first one`,
              "A watchdog wraps them again within seconds. Keep the old root key in FLEET_ENCRYPTION_KEY until then.",
            ),
          ]
        : []),
      ...(state === "converting"
        ? [
            warning(
              "encryption.rows",
              "rows from before the encryption are still plain",
              "A watchdog encrypts them; `fleet keys encryption` shows how far it is.",
            ),
          ]
        : []),
    ],
    () =>
      sound(
        "encryption.rows",
        `all rows with content are encrypted; root key ${first.root_key ?? "unknown"}`,
      ),
  );
}
