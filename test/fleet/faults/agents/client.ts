/** An agent's client: the SDK with all its ways (writer, queue, spool), over a bus that is recorded. */
import { join } from "node:path";
import type { Bus } from "../../../../shared/bus/bus.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import type { Logger } from "../../../../shared/runtime/observability/log.ts";
import { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { publish } from "../../../../shared/sdk/delivery/command-delivery.ts";
import { TaskOrder } from "../../../../shared/sdk/delivery/command-order.ts";
import { BusLink, linkTo } from "../../../../shared/sdk/request/connection.ts";
import { Spool } from "../../../../shared/sdk/spool/spool.ts";
import { spoolName } from "../../../../shared/sdk/spool/spool-list.ts";

const SEND_MS = 2_000;
const settings = { clock: systemClock, tenant: DEFAULT_TENANT, onWarning: () => {} } as const;

/** For looking and asking, past all recording. */
export function clientOn(bus: Bus, agentId: string): FleetClient {
  const order = new TaskOrder(systemClock);
  return new FleetClient({
    ...settings,
    link: linkTo(bus),
    spool: undefined,
    order,
    fallback: "none",
    agentId,
  });
}

export interface AgentConnection {
  readonly url: string;
  readonly agentId: string;
  /** Folder of the spools of all agents. */
  readonly spoolFolder: string;
  readonly log: Logger;
  readonly recorded: (bus: Bus) => Bus;
}

/** As `connect` of the SDK does; it resolves also while there is no bus. */
export async function connectAgent(o: AgentConnection): Promise<FleetClient> {
  const { url, agentId, log } = o;
  const open = async () =>
    o.recorded(await connectBus({ url, name: agentId, identity: agentId, log, connectTimeoutMs: 2_000 }));
  const link = new BusLink(open, { clock: systemClock, log });
  const path = join(o.spoolFolder, spoolName(DEFAULT_TENANT, agentId));
  const order = new TaskOrder(systemClock, path);
  const spool = new Spool({
    path,
    bytesMax: LIMITS.spool_bytes_max,
    clock: systemClock,
    log,
    isUp: () => link.isUp,
    send: async (command) => {
      await publish(link.bus, command, command.body, SEND_MS);
      return undefined;
    },
    onGone: ({ taskId, commandId }) => order.queued(taskId, commandId),
    onAside: ({ reason }) => log.error({ reason }, "a spooled command was set aside"),
  });
  link.onUp(() => spool.wake());
  await link.start(true);
  await order.load();
  await spool.start();
  return new FleetClient({ ...settings, link, spool, order, fallback: "spool", agentId });
}
