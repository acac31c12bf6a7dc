/**
 * The ports of the standalone fleet, checked together before anything is opened: a start that fails at the second port has made a folder,
 * keys and a bus by then. The answer names the fleet that holds them. A port that is taken after the check fails its own opening.
 */
import { once } from "node:events";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { greetedName } from "../../shared/bus/server-greeting.ts";
import { parseServerName } from "../../shared/bus/server-name.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { hasRunningServer } from "./nats/lock.ts";

interface Place {
  readonly name: "bus" | "operations" | "api";
  readonly host: string;
  readonly port: number;
}

export interface FleetPorts {
  readonly natsHost: string;
  readonly natsPort: number;
  readonly opsHost: string;
  readonly opsPort: number;
  readonly gatewayHost: string;
  /** null: there is no HTTP API. */
  readonly gatewayPort: number | null;
  /** The folder of this fleet. */
  readonly home: string;
}

/** The program behind a taken port, as far as it tells. */
interface Holder {
  readonly program: "fleet" | "nats-server" | "another program";
  readonly home?: string;
  readonly pid?: number;
}

const ASK_MS = 1_000;
const OTHER_PORTS =
  "choose other ports with --port, --ops-port and --api-port (FLEET_NATS_PORT, FLEET_OPS_PORT, FLEET_GATEWAY_PORT) and another folder with --home";

const PROBLEMS: Readonly<Record<string, { readonly text: string; readonly hint: string }>> = {
  EACCES: { text: "a port of the fleet is not allowed", hint: "choose a port above 1023" },
  EADDRNOTAVAIL: {
    text: "a host of the fleet is not an address of this machine",
    hint: "set FLEET_NATS_HOST, FLEET_OPS_HOST or FLEET_GATEWAY_HOST to one that is",
  },
  ENOTFOUND: {
    text: "a host of the fleet is unknown",
    hint: "set FLEET_NATS_HOST, FLEET_OPS_HOST or FLEET_GATEWAY_HOST to an address of this machine",
  },
};

/** Throws StartupError if a port cannot be had. Ports that the system chooses are not checked. */
export async function requirePorts({
  natsHost,
  natsPort,
  opsHost,
  opsPort,
  gatewayHost,
  gatewayPort,
  home,
}: FleetPorts): Promise<void> {
  const places: Place[] = [
    { name: "bus", host: natsHost.replace(/^\[(.*)\]$/, "$1"), port: natsPort } as const,
    { name: "operations", host: opsHost, port: opsPort } as const,
    { name: "api", host: gatewayHost.replace(/^\[(.*)\]$/, "$1"), port: gatewayPort ?? 0 } as const,
  ].filter(({ port }) => port > 0);
  const twice = places.find(({ port }, i) => places.findIndex((other) => other.port === port) < i);
  if (twice !== undefined) {
    const details = { port: twice.port };
    throw new StartupError("two ports of the fleet are the same", {
      exitCode: exitCodes.config,
      details,
      hint: OTHER_PORTS,
    });
  }
  const codes = await Promise.all(places.map(bindProblem));
  for (const [i, code] of codes.entries()) {
    const problem = PROBLEMS[code ?? ""];
    if (problem === undefined) continue;
    const details = { [places[i]!.name]: addressOf(places[i]!) };
    throw new StartupError(problem.text, { exitCode: exitCodes.unavailable, details, hint: problem.hint });
  }
  // A server that a killed fleet of this folder has left is stopped later, under the lock of the folder.
  const isOwn = ({ name }: Place) => name === "bus" && hasRunningServer(join(resolve(home), "nats"));
  const taken = places.filter((place, i) => codes[i] === "EADDRINUSE" && !isOwn(place));
  if (taken.length > 0) throw await takenProblem(taken, resolve(home));
}

/** The code of the error of a short listening; undefined: the port is free. */
async function bindProblem({ host, port }: Place): Promise<string | undefined> {
  const server = createServer();
  try {
    server.listen({ port, host, exclusive: true });
    await once(server, "listening");
    server.close();
    await once(server, "close");
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
}

async function takenProblem(taken: readonly Place[], home: string): Promise<StartupError> {
  const holders = await Promise.all(taken.map(holderOf));
  const fleet =
    holders.find((holder) => holder.home !== undefined) ?? holders.find(({ pid }) => pid !== undefined);
  const isForeign = (holder: Holder) => fleet?.pid === undefined || holder.pid !== fleet.pid;
  const details = {
    ...Object.fromEntries(
      taken.map((place, i) => [
        place.name,
        `${addressOf(place)}${isForeign(holders[i]!) ? ` by ${holders[i]!.program}` : ""}`,
      ]),
    ),
    fleet: fleet?.home,
    pid: fleet?.pid,
  };
  const exitCode = exitCodes.unavailable;
  if (fleet?.home === home) {
    const hint = "use it (npx fleet status), or stop it first";
    return new StartupError("the fleet of this folder runs already", { exitCode, details, hint });
  }
  const message = fleet === undefined ? "ports of the fleet are taken" : "another fleet has the ports";
  return new StartupError(message, {
    exitCode,
    details,
    hint: `stop the program that has them, or ${OTHER_PORTS}`,
  });
}

const holderOf = (place: Place): Promise<Holder> =>
  (place.name === "bus" ? busHolder(place) : httpHolder(place)).catch(
    () => ({ program: "another program" }) as const,
  );

async function busHolder({ host, port }: Place): Promise<Holder> {
  const at = reachable(host);
  const name = await greetedName(`nats://${at.includes(":") ? `[${at}]` : at}:${port}`, ASK_MS);
  if (name === undefined) return { program: "another program" };
  const { pid } = parseServerName(name);
  return pid === undefined ? { program: "nats-server" } : { program: "fleet", pid };
}

async function httpHolder({ host, port }: Place): Promise<Holder> {
  const at = reachable(host);
  const url = `http://${at.includes(":") ? `[${at}]` : at}:${port}/healthz`;
  const answer = await fetch(url, { signal: AbortSignal.timeout(ASK_MS) });
  const { service, home, pid } = (await answer.json()) as Record<string, unknown>;
  if (typeof service !== "string" || typeof pid !== "number") return { program: "another program" };
  return { program: "fleet", pid, ...(typeof home === "string" && { home }) };
}

/** An address for all interfaces is reached through loopback. */
export const reachable = (host: string): string =>
  host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;

const addressOf = ({ host, port }: Place): string => `${host}:${port}`;
