/** The folders of the containers, each with the part of the keys and certificates that its service needs. */
import { chmodSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { writeClientFolder } from "../../services/standalone/remote/client-folder.ts";
import { type OwnCertificate, openOwnCertificate } from "../../services/standalone/remote/own-certificate.ts";
import { keepOwnKey } from "../../services/standalone/remote/own-gateway.ts";
import { writeClusterFiles } from "../../shared/bus/access/cluster.ts";
import { ACCESS_FOLDER } from "../../shared/bus/access/local-credentials.ts";
import { parseServerName } from "../../shared/bus/server-name.ts";
import { newSigningKeyPem } from "../../shared/integrity/dsse.ts";
import { writeOnce, writeWhole } from "../../shared/runtime/process/whole-file.ts";
import { CLIENT_FOLDER } from "../../shared/sdk/fleet-home.ts";

const SERVER_CONFIG = new URL("../nats/nats.conf", import.meta.url);
/** The names of the servers in deploy/kubernetes/overlays/production/cluster.conf, by which they find each other. */
const ROUTES = "*.nats-headless.fleet.svc.cluster.local";
const SERVER_NAME = /^nats-\d+$/;
const SERVICES = ["writer", "reader", "coordinator", "watchdog"] as const;
const FOLDER_MODE = 0o700;

export interface ContainerAccess {
  /** The folder of the fleet's keys. No other container mounts it. */
  readonly home: string;
  /** The folder with a folder for each container. */
  readonly to: string;
  /** The content of FoundationDB's cluster file. */
  readonly store: string;
  /** For programs of the host. */
  readonly busUrls: readonly string[];
  readonly apiUrl: string;
  /** The names of the servers in the network of the containers. */
  readonly names: readonly string[];
  readonly now: Date;
}

/** `isNewCertificate`: running servers have another one. */
export async function writeAccess({
  home,
  to,
  store,
  busUrls,
  apiUrl,
  names,
  now,
}: ContainerAccess): Promise<{
  readonly folders: readonly string[];
  readonly isNewCertificate: boolean;
}> {
  const keys = join(home, ACCESS_FOLDER);
  const cluster = join(home, "cluster");
  mkdirSync(home, { recursive: true, mode: FOLDER_MODE });
  await writeClusterFiles({ keys, dir: cluster, serverConfig: readFileSync(SERVER_CONFIG, "utf8"), now });
  const hosts = [...busUrls, apiUrl].map((url) => new URL(url).hostname.replace(/^\[(.*)\]$/, "$1"));
  const covered = [...new Set([...names, ROUTES, ...hosts])];
  const tls = openOwnCertificate(join(home, "tls"), covered, now.getTime(), { forRoutes: true });
  // The key of the servers would let the gateway join them as a server.
  const ofApi = [...new Set([...names.filter((name) => !SERVER_NAME.test(name)), ...hosts])];
  const api = openOwnCertificate(join(home, "tls"), ofApi, now.getTime(), { file: "gateway" });
  const authority = { "ca.crt": tls.caFile };
  const pair = ({ certFile, keyFile }: OwnCertificate) => ({
    ...authority,
    "tls.crt": certFile,
    "tls.key": keyFile,
  });
  const place = (name: string, files: Readonly<Record<string, string>>): string => {
    const folder = join(to, name);
    mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
    chmodSync(folder, FOLDER_MODE);
    for (const [file, from] of Object.entries(files)) writeWhole(join(folder, file), readFileSync(from));
    return folder;
  };
  const config = ["nats.conf", "access.conf"].map((name) => [name, join(cluster, name)] as const);
  const folders = [
    place("nats", { ...Object.fromEntries(config), ...pair(tls) }),
    place("gateway", pair(api)),
  ];
  for (const service of SERVICES) {
    const folder = place(service, { ...authority, "bus.creds": join(cluster, `${service}.creds`) });
    writeWhole(join(folder, "fdb.cluster"), `${store}\n`);
    folders.push(folder);
  }
  const signing = place("signing", {});
  // Services put the next key in its place, so one that is there stays.
  writeOnce(join(signing, "signing-key.pem"), newSigningKeyPem());
  folders.push(signing);
  await keepOwnKey(home, "on", now);
  writeClientFolder(join(home, CLIENT_FOLDER), {
    busUrl: busUrls.join(","),
    opsUrl: undefined,
    gatewayUrl: apiUrl,
    fleet: identityOf(readFileSync(join(cluster, "nats.conf"), "utf8")),
    caFile: tls.caFile,
    keys,
  });
  return { folders, isNewCertificate: tls.isNew || api.isNew };
}

/** Every server announces it, and clients compare it. */
function identityOf(config: string): string {
  const { fleet } = parseServerName(/^server_name: (.*)$/m.exec(config)?.[1]);
  if (fleet === undefined) throw new Error("the configuration of the servers has no identity of the fleet");
  return fleet;
}
