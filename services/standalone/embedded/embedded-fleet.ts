/**
 * `createFleet()`, exported as `fleet/testing`: a real fleet for the tests of a user. It runs in a child process on free ports with a
 * folder of its own, so it never touches the fleet of the user's project. It ends with `stop()`, or with the process that created it.
 */

import type { FleetClient } from "../../../shared/sdk/client/client.ts";
import type { ConnectOptions } from "../../../shared/sdk/client/connect.ts";
import { connect } from "../../../shared/sdk/client/connect.ts";
import { launchFleet } from "./embedded-process.ts";
import { cleanEnvironment, requireSettings } from "./embedded-settings.ts";

export interface EmbeddedFleetOptions {
  /** Settings of the fleet by their names, such as FLEET_POLICY or FLEET_LOG_LEVEL. Those of the environment do not apply. */
  readonly settings?: Readonly<Record<string, string>>;
}

export interface EmbeddedFleet extends AsyncDisposable {
  /** The address of the bus. */
  readonly url: string;
  /** The address of /metrics, /healthz and /readyz. */
  readonly opsUrl: string;
  /** The folder of its data. It is deleted at the end. */
  readonly home: string;
  /** The settings by which another process finds this fleet, such as an agent's or a command's. */
  readonly env: Readonly<Record<string, string>>;
  /** A client of this fleet, which `stop` closes. The settings of the environment do not apply. Throws as `connect` does. */
  connect(options?: ConnectOptions): Promise<FleetClient>;
  /** The log of the fleet so far. */
  log(): string;
  /**
   * Stops the fleet and deletes its folder. Further calls have no effect.
   * @throws FleetError UNAVAILABLE if the fleet has ended with an error, also before this call; `details.output` has the end of its log.
   */
  stop(): Promise<void>;
}

/**
 * Resolves when the fleet is up.
 * @throws FleetError INVALID for an unknown setting; UNAVAILABLE if the fleet does not start, with its output in `details`.
 */
export async function createFleet({ settings = {} }: EmbeddedFleetOptions = {}): Promise<EmbeddedFleet> {
  requireSettings(settings);
  const running = await launchFleet(settings);
  const { home, addresses } = running;
  const env = { FLEET_HOME: home, FLEET_URL: addresses.url, FLEET_SPOOL_DIR: `${home}/spool` };
  const clients = new Set<FleetClient>();
  let stopped: Promise<void> | undefined;

  async function end(): Promise<void> {
    await Promise.allSettled([...clients].map((client) => client.close()));
    await running.end();
  }
  const stop = () => (stopped ??= end());
  return {
    ...addresses,
    home,
    env,
    async connect(options = {}) {
      const client = await connect({ env: { ...cleanEnvironment(), ...env }, ...options });
      clients.add(client);
      return client;
    },
    log: running.log,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
