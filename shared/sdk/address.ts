/**
 * Where the bus is, when nobody says so: the fleet that runs in a folder writes its address there, so that a fleet on an unusual port
 * is found without a setting, by agents and commands alike.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
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
  /** Where it was found, in words: "from FLEET_URL". */
  readonly origin: string;
}

/** The environment wins over the fleet of the folder, and that over the usual port. Throws ConfigError. */
export function discoverBus(env: Environment): BusAddress {
  const { url: named, home } = readConfig(addressFields, env);
  if (named !== undefined) return { url: named, origin: "from FLEET_URL" };
  return fleetOfHome(home) ?? { url: BUS_URL_DEFAULT, origin: "the default" };
}

/** The fleet that runs in a folder; undefined when its process is gone, because its address then says nothing. */
export function fleetOfHome(home: string): BusAddress | undefined {
  const path = join(home, "addresses.json");
  try {
    const { busUrl, pid } = JSON.parse(readFileSync(path, "utf8")) as { busUrl?: unknown; pid?: unknown };
    if (typeof busUrl !== "string" || !URL.canParse(busUrl) || !isAlive(pid)) return undefined;
    return { url: busUrl, origin: `from ${path}` };
  } catch {
    // No file, or half of one: nobody runs here yet.
    return undefined;
  }
}

function isAlive(pid: unknown): boolean {
  // 0 and negative numbers would ask about groups of processes.
  if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid < 1) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
