/**
 * The address of the bus, if no setting names it: a fleet records its address in its home, so agents and commands find it on any port
 * without a setting.
 */
import type { ConnectBusOptions } from "../bus/connection.ts";
import type { ExpectedFleet } from "../bus/server-name.ts";
import { tlsFields, tlsOf } from "../bus/tls-settings.ts";
import { type Environment, type Field, optional, readConfig, url } from "../runtime/settings/config.ts";
import {
  addressesOf,
  type FleetRecord,
  findRecord,
  homeField,
  homeOf,
  readRecord,
  trustedHome,
} from "./fleet-home.ts";

export const BUS_SCHEMES = ["nats", "tls", "ws", "wss"] as const;
export const BUS_URL_DEFAULT = "nats://127.0.0.1:4222";

export const addressFields = {
  url: optional(
    url("FLEET_URL", {
      description: "Address of the bus: nats://host:port, or those of several servers of one cluster",
      schemes: BUS_SCHEMES,
      several: true,
      defaultNote: `the fleet that is recorded in FLEET_HOME; without a record \`${BUS_URL_DEFAULT}\``,
    }) as Field<string | undefined>,
  ),
  home: homeField,
} as const;

export interface BusAddress {
  readonly url: string;
  /** Where the address was found, for messages: "from FLEET_URL". */
  readonly origin: string;
  /** The file with the certificates that may sign the bus's own, if the fleet of the folder names one. */
  readonly caFile?: string;
  /** The fleet that must answer there. Absent: any fleet may. */
  readonly expected?: ExpectedFleet;
  /** True: no setting and no record names an address. */
  readonly isAssumed?: boolean;
  /** True: the recorded fleet does not run, and could not be recognised. */
  readonly isStale?: boolean;
}

/** True if the address is that of the fleet which is recorded in the home of the program, so the keys in that home are for it. */
export function isBusOfHome(url: string, env: Environment): boolean {
  return busOfHome(url, env) !== undefined;
}

/** The TLS options for a bus: those of the settings, and without a setting the authority that the fleet of the home names. */
export function tlsFor(url: string, env: Environment): Pick<ConnectBusOptions, "tls"> {
  const config = readConfig(tlsFields, env);
  return tlsOf({ ...config, tlsCa: config.tlsCa ?? busOfHome(url, env)?.caFile });
}

/** True if no other machine can read what is sent there: the connection has TLS, or stays on this machine. */
export function isPrivateBus(urls: string, env: Environment): boolean {
  if (tlsFor(urls, env).tls !== undefined) return true;
  return addressesOf(urls).every((url) => {
    if (!URL.canParse(url)) return false;
    const { protocol, hostname } = new URL(url);
    return protocol === "tls:" || protocol === "wss:" || LOOPBACK.has(hostname);
  });
}

function busOfHome(urls: string, env: Environment): BusAddress | undefined {
  // A caller that names its address does not depend on the record of its folder.
  const own = addressIn(findRecord(trustedHome(env)));
  const known = new Set(own === undefined ? [] : addressesOf(own.url).map(hostAndPort));
  return addressesOf(urls).every((url) => URL.canParse(url) && known.has(hostAndPort(url))) ? own : undefined;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const PORT_DEFAULT = "4222";

/** Host and port of an address. The names of loopback are one host. */
export function hostAndPort(url: string): string {
  const { hostname, port } = new URL(url);
  return `${LOOPBACK.has(hostname) ? "loopback" : hostname}:${port || PORT_DEFAULT}`;
}

/** The environment comes before the recorded fleet, and only without a record the default is assumed. Throws ConfigError. */
export function discoverBus(env: Environment): BusAddress {
  const { url: given } = readConfig({ url: addressFields.url }, env);
  if (given !== undefined) return { url: given, origin: "from FLEET_URL" };
  return addressOfHome(homeOf(env)) ?? { url: BUS_URL_DEFAULT, origin: "the default", isAssumed: true };
}

/** The address of the fleet that is recorded in a folder, whether it runs or not. Throws ConfigError. */
export function addressOfHome(home: string): BusAddress | undefined {
  return addressIn(readRecord(home));
}

function addressIn(record: FleetRecord | undefined): BusAddress | undefined {
  if (record === undefined) return undefined;
  const { home, url, path, caFile, fleet, isRunning } = record;
  return {
    url,
    origin: `from ${path}`,
    ...(caFile !== undefined && { caFile }),
    ...(fleet !== undefined && { expected: { fleet, home } }),
    // Without an identity, another fleet at this address could not be distinguished from this one.
    ...(fleet === undefined && !isRunning && { isStale: true }),
  };
}
