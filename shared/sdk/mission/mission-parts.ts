/** What the handles of missions need of a client. */
import type { Clock } from "../../runtime/clock.ts";
import type { CommandDelivery } from "../delivery/command-delivery.ts";
import type { ClientConnection } from "../request/connection.ts";
import type { QuerySender } from "../request/query-sender.ts";

export interface MissionParts {
  readonly tenant: string;
  readonly agentId: string;
  readonly connection: ClientConnection;
  readonly delivery: CommandDelivery;
  readonly queries: QuerySender;
  readonly clock: Clock;
}
