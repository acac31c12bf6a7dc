/** The SDK's client over a bus that this program opened and watches. */
import type { Bus } from "../../../shared/bus/bus.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { FleetClient } from "../../../shared/sdk/client.ts";
import { linkTo } from "../../../shared/sdk/link.ts";
import { TaskOrder } from "../../../shared/sdk/order.ts";

export function clientOn(bus: Bus, agentId: string): FleetClient {
  return new FleetClient({
    link: linkTo(bus),
    spool: undefined,
    order: new TaskOrder(systemClock),
    fallback: "none",
    clock: systemClock,
    tenant: DEFAULT_TENANT,
    agentId,
    onWarning: () => {},
  });
}
