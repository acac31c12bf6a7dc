// The bus, the tenant and the agent of a call. An option wins over the environment, and the environment over the fleet
// that runs in this folder.

import { isToken } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { principalToken } from "../../../shared/protocol/principal.ts";
import { type Environment, type Field, readConfig } from "../../../shared/runtime/settings/config.ts";
import {
  addressFields,
  BUS_SCHEMES,
  BUS_URL_DEFAULT,
  type BusAddress,
  discoverBus,
} from "../../../shared/sdk/address.ts";
import { clientFields } from "../../../shared/sdk/client/connect.ts";
import { personFields, type Settings } from "../config.ts";
import { UsageError } from "./usage.ts";

export type Address = BusAddress;

const TOKEN = `1 to ${LIMITS.id_chars_max} characters of A-Z a-z 0-9 _ -`;

const fields = {
  ...addressFields,
  tenant: token(clientFields.tenant),
  agentId: token(clientFields.agentId),
  person: token(personFields.person),
} as const;

/**
 * The token of the agent or person that calls; undefined if none is named. Throws ConfigError with every wrong
 * variable, and UsageError for a wrong option, also for a wrong tenant.
 */
export function readCaller({ tenant, agent, person }: Settings, env: Environment): string | undefined {
  const config = readConfig(fields, env);
  requireToken("--tenant", tenant);
  requireToken("--agent", agent);
  requireToken("--person", person);
  if (agent !== undefined && person !== undefined) {
    throw new UsageError(
      "--agent and --person exclude each other",
      "Name the agent or the person that acts.",
    );
  }
  return tokenOf({ agent, person }) ?? tokenOf({ agent: config.agentId, person: config.person });
}

/** The caller's token. An agent's id wins over the name of a person. */
function tokenOf({ agent, person }: { agent: string | undefined; person: string | undefined }) {
  if (agent !== undefined || person === undefined) return agent;
  return principalToken({ kind: "human", name: person });
}

/** The address of the bus. Throws as {@link readCaller} does. */
export function discover(settings: Settings, env: Environment): Address {
  return namedAddress(settings, env) ?? discoverBus(env);
}

/** The address that an option or a variable names. */
export function namedAddress({ url: option }: Settings, env: Environment): Address | undefined {
  const { url: variable } = readConfig(fields, env);
  if (option !== undefined) {
    requireScheme(option);
    return { url: option, origin: "from --url" };
  }
  return variable === undefined ? undefined : { url: variable, origin: "from FLEET_URL" };
}

function token<T extends string | undefined>(field: Field<T>): Field<T> {
  return { ...field, type: TOKEN, parse: (raw) => (isToken(raw) ? field.parse(raw) : undefined) };
}

function requireToken(option: string, value: string | undefined): void {
  if (value === undefined || isToken(value)) return;
  throw new UsageError(`${option} is not a valid name: ${JSON.stringify(value)}`, `Give ${TOKEN}.`);
}

/** The message repeats only the scheme, because the rest may contain a password. */
function requireScheme(urls: string): void {
  for (const one of urls.split(",")) {
    const scheme = /^\s*([a-z][a-z0-9+.-]*):\/\//i.exec(one)?.[1]?.toLowerCase();
    if (scheme === undefined || BUS_SCHEMES.some((known) => known === scheme)) continue;
    throw new UsageError(
      `--url has the wrong scheme: ${scheme}`,
      `Give a URL that starts with ${BUS_SCHEMES.join(", ")}, such as ${BUS_URL_DEFAULT}.`,
    );
  }
}
