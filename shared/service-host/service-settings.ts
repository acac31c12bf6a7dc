/**
 * The settings of every service process, separate from the parts that they open: a program that only starts
 * services loads none.
 */
import { isAbsolute, resolve } from "node:path";
import { tlsFields } from "../bus/tls-settings.ts";
import { encryptionKeysField } from "../integrity/encryption/root-keys.ts";
import {
  bytes,
  duration,
  type Field,
  type FieldOptions,
  integer,
  oneOf,
  optional,
  text,
  url,
} from "../runtime/settings/config.ts";
import { processFields } from "../runtime/settings/process-settings.ts";

/** Refuses what only looks like the name of the bus, instead of using it as the name of a folder. */
function artifactsPlace(options: FieldOptions<string>): Field<string> {
  const field = text("FLEET_ARTIFACTS", { ...options, min: 1 });
  const parse = (raw: string) => (/^nats(?:$|:)/i.test(raw) && raw !== "nats" ? undefined : field.parse(raw));
  return { ...field, type: "`off`, `nats`, or a folder", parse };
}

export { ENCRYPTION_KEY } from "../integrity/encryption/root-keys.ts";

/** The checks of /readyz. */
export const PLATFORM_CHECKS = ["store", "bus", "streams", "disk"] as const;
export type PlatformCheck = (typeof PLATFORM_CHECKS)[number];

export const platformFields = {
  ...processFields,
  diskMinFree: optional(
    bytes("FLEET_DISK_MIN_FREE", {
      description:
        "Free space on the disk of the store, and on that of the standalone fleet's bus, below which commands are refused; operators are alerted below twice as much; 0: no limit",
      defaultNote: "`128MiB`, or a tenth of a disk that is smaller than 1280 MiB",
    }),
  ),
  mirrorDir: optional(
    text("FLEET_MIRROR_DIR", {
      description:
        "Folder of the file mirror, with a copy of every checkpoint in `checkpoints`; services restore lost and corrupt checkpoints from it; `off`: none",
      defaultNote: "`FLEET_HOME` in the standalone fleet, else `off`",
    }),
  ),
  artifactsPlace: optional(
    artifactsPlace({
      description:
        "Place of the artifacts, which readers store and serve and watchdogs verify: a folder, which processes on several machines must share; `nats`: the Object Store of the bus; `off`: none",
      defaultNote: "`<FLEET_HOME>/artifacts` in the standalone fleet, else `off`",
    }),
  ),
  signingKeyFile: optional(
    text("FLEET_SIGNING_KEY", {
      min: 1,
      description:
        "File of the private key with which commits are signed (Ed25519, PEM, mode 0600); `off`: commits are not signed, which a store that was signed from the beginning refuses. Writer, reader, coordinator and watchdog need one each, or share one, before the first start; `fleet keys` lists, rotates and revokes them",
      defaultNote: "`<FLEET_HOME>/signing-key.pem` in the standalone fleet, which makes it, else `off`",
    }),
  ),
  encryptionKeys: encryptionKeysField,
  artifactsGrace: duration("FLEET_ARTIFACTS_GRACE", {
    default: "48h",
    min: "1s",
    description:
      "Time for which an artifact without a reference stays; less than a day could remove what a queued checkpoint references",
  }),
  artifactsBytes: bytes("FLEET_ARTIFACTS_BYTES", {
    default: 10 * 1024 ** 3,
    defaultNote: "10GiB",
    description: "Limit of the artifacts and open uploads of one tenant",
  }),
} as const;

export const clusterFields = {
  storeUrl: text("FLEET_STORE", {
    default: "lmdb:.fleet/store",
    description:
      "Store: fdb:/path/to/fdb.cluster, lmdb:path (one process), lmdb:path?shared (processes of one machine), or memory: (nothing is kept)",
  }),
  busUrl: url("FLEET_URL", {
    default: "nats://127.0.0.1:4222",
    description: "Address of the bus: nats://host:port, or those of several servers of one cluster",
    several: true,
  }),
  busMonitorUrls: optional(
    url("FLEET_NATS_MONITOR_URL", {
      description:
        "Monitoring addresses of all servers of the bus; a service starts only if none of those that answer acknowledges before it syncs to disk",
      several: true,
      schemes: ["http", "https"],
    }),
  ),
  busCredentials: optional(
    text("FLEET_NATS_CREDS", { description: "Credentials file for the bus; read again at every reconnect" }),
  ),
  ...tlsFields,
  streamReplicas: optional(
    integer("FLEET_STREAM_REPLICAS", {
      min: 1,
      max: 5,
      description:
        "Copies of each stream on the servers of the bus, an odd number. A bus with fewer servers refuses them; more servers later keep more copies, in place",
      defaultNote: "3 on a bus of three servers or more, otherwise 1",
    }),
  ),
  auth: oneOf("FLEET_AUTH", ["on", "off"], {
    default: "on",
    description:
      "Credentials for the bus; `off` starts the standalone fleet's bus without them, and a service on its own connects without them: every program that reaches the bus may act as any agent, for closed test networks",
  }),
} as const;

/** The folder of a store on this machine; undefined for any other store. */
export function storeFolder(storeUrl: string): string | undefined {
  return /^lmdb:([^?]+)/.exec(storeUrl)?.[1];
}

/** Paths in a store URL are relative to the working directory of the process. */
export function absoluteStoreUrl(storeUrl: string, base = process.cwd()): string {
  const path = /^lmdb:(.+)$/.exec(storeUrl)?.[1];
  return path === undefined || isAbsolute(path) ? storeUrl : `lmdb:${resolve(base, path)}`;
}
