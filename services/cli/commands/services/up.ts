// `fleet up`: runs the standalone fleet in the foreground.

import { fileURLToPath } from "node:url";
import { type Command, Option } from "commander";
import { programUrl } from "../../../../shared/runtime/process/installation.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";
import { upFields } from "../../config.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Address } from "../../runtime/address.ts";
import { Session } from "../../runtime/session.ts";

interface Flags {
  readonly port?: number;
  readonly home?: string;
  readonly opsPort?: number;
  readonly apiPort?: number;
}

const MAIN = fileURLToPath(programUrl("../../../standalone/main.ts", import.meta.url));
const PORT_MAX = 65_535;
/** A fleet that has just started, on a busy machine, may take seconds to answer. Without a server the answer comes at once. */
const PROBE_MS = 5_000;

export function addUp(program: Command, action: ActionFactory): void {
  const command = program
    .command("up")
    .summary("Start the standalone fleet.")
    .description(
      "Start the standalone fleet on this machine, until Ctrl-C. If it is already running, do nothing.",
    )
    .addOption(
      new Option("--port <n>", "port of the bus (FLEET_NATS_PORT, else 4222)").argParser(
        wholeNumber(1, PORT_MAX),
      ),
    )
    .option("--home <path>", "folder of the data (FLEET_HOME, else .fleet)")
    .addOption(
      new Option("--ops-port <n>", "port of /metrics, /healthz and /readyz (FLEET_OPS_PORT)").argParser(
        wholeNumber(0, PORT_MAX),
      ),
    )
    .addOption(
      new Option("--api-port <n>", "port of the HTTP API (FLEET_GATEWAY_PORT, else 4284); 0: none").argParser(
        wholeNumber(0, PORT_MAX),
      ),
    )
    .action(action(up));
  withExamples(command, (fleet) => ({
    "With the settings of the environment": `${fleet} up`,
    "A second fleet on the same machine": `${fleet} up --port 5222 --home ./other --ops-port 9222 --api-port 9284`,
  }));
}

async function up(session: Session, flags: Flags): Promise<void> {
  const { homeOf } = await import("../../../../shared/sdk/fleet-home.ts");
  // In a subfolder of a project with a fleet, that fleet is meant, not a new one.
  const home = flags.home ?? homeOf(session.context.env);
  for (const candidate of await candidates(session, flags, home)) {
    if (!(await fleetAnswers(session, candidate, home))) continue;
    const { url, origin } = candidate;
    await session.show(
      { running: true, url, origin },
      () => `A fleet is already running at ${url} (${origin}).`,
    );
    return;
  }
  const env = {
    ...session.context.env,
    ...(flags.port !== undefined && { FLEET_NATS_PORT: String(flags.port) }),
    FLEET_HOME: home,
    ...(flags.opsPort !== undefined && { FLEET_OPS_PORT: String(flags.opsPort) }),
    ...(flags.apiPort !== undefined && { FLEET_GATEWAY_PORT: String(flags.apiPort) }),
  };
  const { runService } = await import("./service-process.ts");
  session.exitCode = await runService(MAIN, env);
}

/** The addresses at which a running fleet makes another one unnecessary: those of commands, of the folder and of the port. */
async function candidates(
  session: Session,
  { port: given, home: option }: Flags,
  home: string,
): Promise<Address[]> {
  const { namedAddress } = await import("../../runtime/address.ts");
  const { settings, context } = session;
  const port = given ?? readConfig(upFields, context.env).port;
  const named = namedAddress(settings, context.env);
  // A call with a port or a folder means that fleet: options win over the environment.
  const usesNamed = settings.url !== undefined || (given === undefined && option === undefined);
  const own =
    port > 0
      ? {
          url: `nats://127.0.0.1:${port}`,
          origin: given === undefined ? "the port it would take" : "from --port",
        }
      : undefined;
  const recorded = await recordedAddress(home);
  const found = [usesNamed ? named : undefined, recorded, own].filter((one) => one !== undefined);
  return [...new Map(found.toReversed().map((one) => [one.url, one])).values()].toReversed();
}

/** undefined also for a record that cannot be read: the start writes it again. */
async function recordedAddress(home: string): Promise<Address | undefined> {
  const { addressOfHome } = await import("../../../../shared/sdk/address.ts");
  try {
    return addressOfHome(home);
  } catch {
    return undefined;
  }
}

/** `home`: the folder whose keys the probe uses, and whose fleet must answer at a recorded address. */
async function fleetAnswers(session: Session, { url, expected }: Address, home: string): Promise<boolean> {
  const { context } = session;
  const { url: _, ...settings } = session.settings;
  const isRecorded = expected !== undefined;
  const env = { ...context.env, FLEET_HOME: home, ...(isRecorded && { FLEET_URL: "" }) };
  const probe = new Session(
    { ...context, env },
    { ...settings, ...(!isRecorded && { url }), timeout: settings.timeout ?? PROBE_MS },
  );
  try {
    const client = await probe.client();
    await client.admin.status(probe.deadline);
    return true;
  } catch {
    // Another program has the port: the error of the fleet's own start describes that best.
    return false;
  } finally {
    await probe.close();
  }
}
