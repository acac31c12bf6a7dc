/**
 * The address of the bus, if no setting names it: the fleet that runs in a folder writes its address there, so agents and commands find
 * a fleet on an unusual port without a setting.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ConnectBusOptions } from "../bus/connection.ts";
import { tlsFields, tlsOf } from "../bus/tls-settings.ts";
import { type Environment, type Field, optional, readConfig, text, url } from "../runtime/settings/config.ts";

export const BUS_SCHEMES = ["nats", "tls", "ws", "wss"] as const;
export const BUS_URL_DEFAULT = "nats://127.0.0.1:4222";

export const addressFields = {
  url: optional(
    url("FLEET_URL", {
      description: "Address of the bus: nats://host:port",
      schemes: BUS_SCHEMES,
      defaultNote: `the fleet that runs in FLEET_HOME, then \`${BUS_URL_DEFAULT}\``,
    }) as Field<string | undefined>,
  ),
  home: text("FLEET_HOME", { default: ".fleet", description: "Folder of the standalone fleet's data" }),
} as const;

export interface BusAddress {
  readonly url: string;
  /** Where the address was found, for messages: "from FLEET_URL". */
  readonly origin: string;
  /** The file with the certificates that may sign the bus's own, if the fleet of the folder names one. */
  readonly caFile?: string;
}

/** True if the address is that of the fleet which runs in the home of the program, so the keys in that home are for it. */
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
  return urls.split(",").every((text) => {
    const url = text.trim();
    if (!URL.canParse(url)) return false;
    const { protocol, hostname } = new URL(url);
    return protocol === "tls:" || protocol === "wss:" || LOOPBACK.has(hostname);
  });
}

function busOfHome(url: string, env: Environment): BusAddress | undefined {
  const own = addressOfHome(readConfig(addressFields, env).home);
  return own !== undefined && URL.canParse(url) && placeOf(url) === placeOf(own.url) ? own : undefined;
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);
const PORT_DEFAULT = "4222";

/** The names of loopback are one place. */
function placeOf(url: string): string {
  const { hostname, port } = new URL(url);
  return `${LOOPBACK.has(hostname) ? "loopback" : hostname}:${port || PORT_DEFAULT}`;
}

/** The environment comes before the fleet of the folder, and that before the default port. Throws ConfigError. */
export function discoverBus(env: Environment): BusAddress {
  const { url: given, home } = readConfig(addressFields, env);
  if (given !== undefined) return { url: given, origin: "from FLEET_URL" };
  return addressOfHome(home) ?? { url: BUS_URL_DEFAULT, origin: "the default" };
}

/** The address of the fleet that runs in a folder; undefined if its process has ended, because its address is then out of date. */
export function addressOfHome(home: string): BusAddress | undefined {
  const path = join(home, "addresses.json");
  try {
    const { busUrl, busCa, pid } = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
    if (typeof busUrl !== "string" || !URL.canParse(busUrl) || !isAlive(pid)) return undefined;
    return { url: busUrl, origin: `from ${path}`, ...(typeof busCa === "string" && { caFile: busCa }) };
  } catch {
    // No file, or a truncated one: no fleet runs here yet.
    return undefined;
  }
}

function isAlive(pid: unknown): boolean {
  // 0 and negative numbers would address process groups.
  if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid < 1) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
