/** The gateway of the standalone fleet, in its main thread, and the API key of the fleet's own user. */
import { mkdirSync, readFileSync } from "node:fs";
import { userInfo } from "node:os";
import { join } from "node:path";
import { readAccountName } from "../../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER, issueLocally } from "../../../shared/bus/access/local-credentials.ts";
import {
  apiKeysFolder,
  createApiKey,
  isSecretOf,
  readApiKey,
  removeApiKey,
} from "../../../shared/bus/api-keys.ts";
import type { BusCredentials } from "../../../shared/bus/connection.ts";
import { parseApiKey } from "../../../shared/protocol/api-key.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { personOf } from "../../../shared/protocol/principal.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { CLIENT_FOLDER } from "../../../shared/sdk/fleet-home.ts";
import type { Gateway, GatewayOptions } from "../../gateway/gateway.ts";
import type { StandaloneConfig } from "../config.ts";
import { type ListenerTls, OWN_CERTIFICATE } from "../nats/listener.ts";

const KEY_FILE = "api-key";
const FOLDER_MODE = 0o700;

export interface OwnGateway {
  readonly config: StandaloneConfig;
  readonly home: string;
  readonly fleet: string;
  readonly busUrl: string;
  /** Of the bus. undefined: it has no TLS. */
  readonly tls: ListenerTls | undefined;
}

/** undefined: it is switched off. Throws StartupError. */
export async function startGateway(
  context: ServiceContext,
  { config, home, fleet, busUrl, tls }: OwnGateway,
): Promise<Gateway | undefined> {
  if (config.gatewayPort === null) return undefined;
  await keepOwnKey(home, config.auth, new Date(context.clock.now()));
  const { GATEWAY_NAME, start } = await import("../../gateway/gateway.ts");
  return start(context, {
    settings: withOwnCertificate(config, tls),
    bus: {
      url: busUrl,
      expected: { fleet, home },
      ...(tls?.caFile !== undefined && { tls: { caFile: tls.caFile } }),
    },
    credentialsOfToken: config.auth === "off" ? undefined : credentialsOfToken(home),
    keysFolder: apiKeysFolder(home, process.env),
    ownCredentials: await ownCredentials(home, config.auth, GATEWAY_NAME),
    stopTimeoutMs: config.stopTimeout,
  });
}

/** Credentials with which a part of the fleet reports to the access log. null: the bus needs none. */
export async function ownCredentials(
  home: string,
  auth: StandaloneConfig["auth"],
  name: string,
): Promise<BusCredentials | null | undefined> {
  if (auth === "off") return null;
  const creds = await issueLocally(home, { role: "observer", tenant: DEFAULT_TENANT, name });
  return creds === undefined ? undefined : { creds };
}

/** With the certificate of the fleet's own bus, which has the names of this machine. Throws StartupError. */
function withOwnCertificate(config: StandaloneConfig, tls: ListenerTls | undefined): StandaloneConfig {
  if (config.gatewayCert !== OWN_CERTIFICATE) return config;
  if (config.natsCert !== OWN_CERTIFICATE || tls === undefined || config.gatewayKey !== undefined)
    throw new StartupError("the HTTP API has no certificate of the fleet's own", {
      exitCode: exitCodes.config,
      hint: "set FLEET_NATS_SERVER_CERT=auto and no FLEET_GATEWAY_KEY, or FLEET_GATEWAY_CERT to a file",
    });
  return { ...config, gatewayCert: tls.certFile, gatewayKey: tls.keyFile };
}

/** Without a signing service, the fleet itself gives the rights of a verified token, until that expires. */
const credentialsOfToken =
  (home: string): GatewayOptions["credentialsOfToken"] =>
  async (_token, { role, tenant, name, expiresAt }) => {
    const creds = await issueLocally(home, { role, tenant, name, expiresAt });
    if (creds === undefined) throw new FleetError("FORBIDDEN", "this fleet has no key of the role");
    return { creds };
  };

/**
 * Makes an API key with the rights of an operator for the user of the fleet, in a file that only this user can read, unless
 * the file has a valid one. Its credentials are not in the register of issued ones, like all that this user makes alone.
 */
export async function keepOwnKey(home: string, auth: StandaloneConfig["auth"], now: Date): Promise<void> {
  const [folder, clientFolder] = [apiKeysFolder(home, process.env), join(home, CLIENT_FOLDER)];
  const path = join(clientFolder, KEY_FILE);
  const account = auth === "off" ? null : (readAccountName(join(home, ACCESS_FOLDER)) ?? null);
  const known = parseApiKey(read(path).trim());
  const record = known && readApiKey(folder, known.id);
  if (known !== undefined && record !== undefined) {
    if (isSecretOf(record, known.secret) && record.account === account) return;
    removeApiKey(folder, known.id);
  }
  const principal = { tenant: DEFAULT_TENANT, name: personOf(userName()), role: "operator" } as const;
  const credentials = account === null ? null : ((await issueLocally(home, principal)) ?? null);
  const { key } = createApiKey(folder, {
    ...principal,
    grant: null,
    account,
    credentials,
    expiresAt: null,
    now,
  });
  mkdirSync(clientFolder, { recursive: true, mode: FOLDER_MODE });
  writeWhole(path, `${key}\n`);
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user without an entry.
    return "operator";
  }
}
