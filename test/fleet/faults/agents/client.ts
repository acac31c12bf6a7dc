/** An agent's client: the SDK with all its delivery paths (writer, queue, spool), over a recorded bus. */
import { join } from "node:path";
import type { Bus } from "../../../../shared/bus/bus.ts";
import type { BusCredentials } from "../../../../shared/bus/connection.ts";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createLogger, type Logger } from "../../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { clientOver } from "../../../../shared/sdk/client/connect.ts";
import type { SdkOfTree } from "./sdk-tree.ts";

const settings = { clock: systemClock, tenant: DEFAULT_TENANT } as const;

/** A client for queries, without a record. */
export function clientOn(bus: Bus, agentId: string): FleetClient {
  const log = createLogger({ service: "sdk", level: "silent" });
  return clientOver(bus, { ...settings, agentId, log, onWarning: () => {} });
}

export interface AgentConnection {
  readonly sdk: SdkOfTree;
  readonly url: string;
  readonly agentId: string;
  /** The folder of the spools of all agents. */
  readonly spoolFolder: string;
  readonly log: Logger;
  /** Absent: the bus needs none. */
  readonly credentials?: BusCredentials | undefined;
  readonly recorded: (bus: Bus) => Bus;
}

/** Connects as `connect` of the SDK does; resolves even while the bus is unavailable. */
export async function connectAgent(o: AgentConnection): Promise<FleetClient> {
  const { sdk, url, agentId, log, credentials } = o;
  const options = { url, name: agentId, identity: agentId, log, connectTimeoutMs: 2_000 };
  // The rights of an agent are those within its tenant.
  const own = credentials === undefined ? options : { ...options, tenant: DEFAULT_TENANT, credentials };
  const open = async () => o.recorded(await sdk.connectBus(own));
  return sdk.connectClient(open, {
    ...settings,
    agentId,
    log,
    fallback: "spool",
    spool: async () => ({ path: join(o.spoolFolder, sdk.spoolName(DEFAULT_TENANT, agentId)) }),
    onWarning: ({ code, text, details }) => {
      if (code === "SPOOL_SET_ASIDE") log.error(details, text);
    },
  });
}
