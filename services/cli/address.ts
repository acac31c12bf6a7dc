// Whom a call means: which bus, which tenant, and as which agent. An option wins over the environment, and the
// environment over the fleet that runs in this folder, so that a fleet on an unusual port is found without a setting.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isToken } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import {
  type Environment,
  type Field,
  optional,
  readConfig,
  text,
  url,
} from "../../shared/runtime/config.ts";
import { clientFields } from "../../shared/sdk/connect.ts";
import type { Settings } from "./config.ts";
import { UsageError } from "./usage.ts";

export interface Address {
  readonly url: string;
  /** Where it was found, in words: "from FLEET_URL". */
  readonly origin: string;
}

export interface Identity {
  readonly tenant: string;
  readonly agentId: string | undefined;
}

const SCHEMES = ["nats", "tls", "ws", "wss"] as const;
const TOKEN = `1 to ${LIMITS.id_chars_max} characters of A-Z a-z 0-9 _ -`;

const fields = {
  url: optional(
    url(clientFields.url.name, { description: clientFields.url.description, schemes: SCHEMES }) as Field<
      string | undefined
    >,
  ),
  tenant: token(clientFields.tenant),
  agentId: token(clientFields.agentId),
  home: text("FLEET_HOME", { default: ".fleet", description: "Where the standalone fleet keeps everything" }),
} as const;

/** Throws ConfigError with every variable that is wrong, UsageError for an option that is. */
export function readIdentity({ tenant, agent }: Settings, env: Environment): Identity {
  const config = readConfig(fields, env);
  requireToken("--tenant", tenant);
  requireToken("--agent", agent);
  return { tenant: tenant ?? config.tenant, agentId: agent ?? config.agentId };
}

/** Throws as {@link readIdentity} does. */
export function discover(settings: Settings, env: Environment): Address {
  return (
    namedAddress(settings, env) ??
    fleetOfHome(env) ?? { url: clientFields.url.default!, origin: "the default" }
  );
}

/** What an option or a variable says. */
export function namedAddress({ url: option }: Settings, env: Environment): Address | undefined {
  const { url: variable } = readConfig(fields, env);
  if (option !== undefined) {
    requireScheme(option);
    return { url: option, origin: "from --url" };
  }
  return variable === undefined ? undefined : { url: variable, origin: "from FLEET_URL" };
}

/** The fleet that runs in a folder; undefined when its process is gone, because its address then says nothing. */
export function fleetOfHome(env: Environment, given?: string): Address | undefined {
  const path = join(given ?? readConfig(fields, env).home, "addresses.json");
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

function token<T extends string | undefined>(field: Field<T>): Field<T> {
  return { ...field, type: TOKEN, parse: (raw) => (isToken(raw) ? field.parse(raw) : undefined) };
}

function requireToken(option: string, value: string | undefined): void {
  if (value === undefined || isToken(value)) return;
  throw new UsageError(`${option} is no name: ${JSON.stringify(value)}`, `Give ${TOKEN}.`);
}

/** Only the scheme is repeated: what follows may carry a password. */
function requireScheme(urls: string): void {
  for (const one of urls.split(",")) {
    const scheme = /^\s*([a-z][a-z0-9+.-]*):\/\//i.exec(one)?.[1]?.toLowerCase();
    if (scheme === undefined || SCHEMES.some((known) => known === scheme)) continue;
    throw new UsageError(
      `--url has the wrong scheme: ${scheme}`,
      `Give a URL that starts with ${SCHEMES.join(", ")}, such as ${clientFields.url.default}.`,
    );
  }
}
