/** The settings of the anchors of the audit log, read once at the start. */
import { X509Certificate } from "node:crypto";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import {
  type BucketSettings,
  bucketSettingsSchema,
} from "../../../shared/protocol/anchor-bucket-settings.ts";
import {
  ConfigError,
  type ConfigOf,
  type ConfigProblem,
  duration,
  optional,
  text,
  url,
} from "../../../shared/runtime/settings/config.ts";
import { readSettingsFile, settingsBytes } from "../../../shared/service-host/settings-file.ts";

const AUTHORITY_FILE = "FLEET_AUDIT_TSA_CA";
const BUCKET_FILE = "FLEET_AUDIT_ANCHOR_BUCKET";
/** Bits of the mode by which other users may read or write the file. */
const OTHERS = 0o077;

export const anchorFields = {
  anchorFolder: optional(
    text("FLEET_AUDIT_ANCHOR_FOLDER", {
      description:
        "Folder to whose files the signed checkpoints of the audit log are appended; on a disk that operators of the fleet cannot change",
    }),
  ),
  anchorBucketFile: optional(
    text(BUCKET_FILE, {
      description:
        "File with a bucket (S3 with Object Lock) for the signed checkpoints of the audit log, as in services/watchdog/README.md; JSON, readable by its owner only",
    }),
  ),
  anchorEvery: duration("FLEET_AUDIT_ANCHOR_EVERY", {
    default: "1h",
    min: "1s",
    max: "24h",
    description:
      "Shortest time between two time-stamps of one audit log, and between two objects in the bucket",
  }),
  timestampUrl: optional(
    url("FLEET_AUDIT_TSA_URL", {
      schemes: ["http", "https"],
      description: "Time-stamp authority (RFC 3161) that gets the hashes of checkpoints of the audit log",
    }),
  ),
  timestampAuthorities: optional(
    text(AUTHORITY_FILE, {
      description:
        "Certificates of that authority (PEM); without them its signatures are verified, but not who has made them",
    }),
  ),
} as const;

export interface AnchorSettings {
  /** null: checkpoints are appended to no folder. */
  readonly folder: string | null;
  /** null: they are in no bucket. */
  readonly bucket: BucketSettings | null;
  /** null: they are not time-stamped. */
  readonly timestamps: TimestampSettings | null;
  readonly everyMs: number;
}

export interface TimestampSettings {
  readonly url: string;
  /** PEM. Empty: those of any authority are accepted. */
  readonly authorities: readonly string[];
}

/** Throws ConfigError. */
export function readAnchorSettings({
  anchorFolder,
  anchorBucketFile,
  anchorEvery,
  timestampUrl,
  timestampAuthorities,
}: ConfigOf<typeof anchorFields>): AnchorSettings {
  const authorities = timestampAuthorities === undefined ? [] : certificatesIn(timestampAuthorities);
  if (timestampUrl !== undefined) requireProvable(timestampUrl, authorities);
  return {
    folder: anchorFolder === undefined ? null : resolve(anchorFolder),
    bucket: anchorBucketFile === undefined ? null : bucketIn(anchorBucketFile),
    timestamps: timestampUrl === undefined ? null : { url: timestampUrl, authorities },
    everyMs: anchorEvery,
  };
}

/** Everyone between could answer an http: request with a time-stamp of their own. */
function requireProvable(address: string, authorities: readonly string[]): void {
  const { protocol, username, password } = new URL(address);
  if (`${username}${password}` !== "")
    throw new ConfigError([
      {
        name: "FLEET_AUDIT_TSA_URL",
        expected: "an address without a user name",
        got: "one with a user name",
      },
    ]);
  if (protocol === "http:" && authorities.length === 0)
    throw problem({ expected: "the certificates of an authority with an http: address", got: "nothing" });
}

function bucketIn(path: string): BucketSettings {
  const file = { name: BUCKET_FILE, path, secret: /^(secret_access_key|session_token)$/ };
  const settings = readSettingsFile(file, bucketSettingsSchema);
  const mode = statSync(path).mode & 0o777;
  if ((mode & OTHERS) === 0) return settings;
  const got = `${path} with the mode ${mode.toString(8)}`;
  throw new ConfigError([
    { name: BUCKET_FILE, expected: "a file that only its owner can read (chmod 600)", got },
  ]);
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

function certificatesIn(path: string): readonly string[] {
  const pems = settingsBytes({ name: AUTHORITY_FILE, path }).toString().match(CERTIFICATE) ?? [];
  if (pems.length === 0 || !pems.every(isCertificate))
    throw problem({ expected: "a file with certificates (PEM)", got: `something else in ${path}` });
  return pems;
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0;
  } catch {
    return false;
  }
}

const problem = (one: Omit<ConfigProblem, "name">): ConfigError =>
  new ConfigError([{ name: AUTHORITY_FILE, ...one }]);
