// The encryption of the store's rows, and its keys.

import { conversionEnd, type EncryptionDiagnosis } from "../../../../shared/protocol/diagnosis.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** Of the services of one store, with the name of its engine. */
export interface StoreRows {
  readonly state: EncryptionDiagnosis;
  readonly engine: string;
}

export function renderEncryption({ state, engine }: StoreRows, view: View): string {
  if (state.state === "off")
    return "The rows of the store are not encrypted. Set FLEET_ENCRYPTION_KEY for all services to encrypt them.";
  const { root_key, bucket_keys = 0, bucket_keys_of_other_roots: others = 0 } = state;
  return [
    stateText(state, view),
    ...plainBytesTexts({ state, engine }, view),
    `Root key of new keys: ${plain(root_key ?? "-")}`,
    keysText(state, view),
    others === 0
      ? `All ${counted(bucket_keys, "bucket key")} are wrapped by it: no other root key is needed.`
      : view.colors.yellow(
          `${counted(others, "bucket key")} still need another root key. Keep it in FLEET_ENCRYPTION_KEY.`,
        ),
    ...rotationTexts(state, view),
  ].join("\n");
}

function rotationTexts(state: EncryptionDiagnosis, { colors, now }: View): readonly string[] {
  const { rotations_pending = 0, tenants_in_rotation = 0, rotation_retry_at: retryAt = null } = state;
  const { data_keys_damaged: damaged = 0, tenants_unavailable: unavailable = 0 } = state;
  const { bucket_keys_damaged: buckets = 0, tenants_at_key_limit: full = 0 } = state;
  const isWaiting = retryAt !== null && rotations_pending === 0;
  const progress = isWaiting
    ? `The rotation of bucket keys has left keys, and tries them again ${ago(retryAt, now)}.`
    : "A rotation of bucket keys is in progress.";
  return [
    ...(buckets > 0
      ? [
          colors.red(
            `${counted(buckets, "bucket key")} cannot be read. \`fleet keys encryption rotate\` gives each tenant a new one; a backup has the sound ones.`,
          ),
        ]
      : []),
    ...(damaged > 0
      ? [colors.red(`${counted(damaged, "data key")} cannot be unwrapped. A backup has the sound ones.`)]
      : []),
    ...(unavailable > 0
      ? [colors.yellow(`${counted(unavailable, "tenant")} could not be rotated: a root key cannot be used.`)]
      : []),
    ...(full > 0
      ? [
          colors.yellow(
            `${counted(full, "tenant")} cannot get a new bucket key. \`fleet doctor\` says what to do.`,
          ),
        ]
      : []),
    ...(rotations_pending + tenants_in_rotation > 0 || isWaiting ? [progress] : []),
  ];
}

function stateText(
  { state, completed_at, converted_rows = 0 }: EncryptionDiagnosis,
  { now, colors }: View,
): string {
  const rows = converted_rows === 0 ? "" : ` ${count(converted_rows)} rows were plain before.`;
  if (state === "complete")
    return `${colors.green("All rows with content are encrypted")}, since ${ago(completed_at ?? "-", now)}.${rows}`;
  return `${colors.yellow("Rows from before the encryption are being encrypted")}: ${count(converted_rows)} so far.`;
}

/** Engines keep replaced pages in their files. Those of a cluster belong to its processes, which the fleet does not see. */
function plainBytesTexts({ state, engine }: StoreRows, { colors }: View): readonly string[] {
  const end = conversionEnd(state);
  if (end === null) return [];
  const isCluster = engine === "foundationdb";
  const removal = isCluster
    ? "Move the data of the cluster to other disks"
    : "`fleet backup` and `fleet restore` make a file without them";
  return [
    colors.yellow(
      `Plain bytes from before ${end} may be left in the ${isCluster ? "files of the cluster" : "file of the store"}, and are in backups from before then. ` +
        `${removal}: see "Encryption of a plain store" in UPGRADES.md. Restart services that started before then.` +
        (isCluster ? " This notice stays, because the fleet does not see the disks of a cluster." : ""),
    ),
  ];
}

function keysText({ bucket_keys = 0, oldest_bucket_key_at: at }: EncryptionDiagnosis, { now }: View): string {
  return `${counted(bucket_keys, "bucket key")}, the oldest ${at ? ago(at, now) : "of an unknown time"}.`;
}
