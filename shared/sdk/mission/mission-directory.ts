/** `fleet.missions`: the list of missions, and the current one. */
import type { Mission } from "../../protocol/mission.ts";
import type { MissionPage } from "../../protocol/mission-queries.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { Camel } from "../case-convert.ts";
import type { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";

export class MissionDirectory {
  readonly #queries: QuerySender;

  constructor(queries: QuerySender) {
    this.#queries = queries;
  }

  /** Ordered by their ids, in pages. `active`: only those that have not ended. */
  list(query: Camel<QueryInput<"missions">> & CallOptions = {}): Promise<MissionPage> {
    return this.#queries.send("missions", query);
  }

  /** The active mission with the newest activity, of those that this agent coordinates if there is any; null: there is none. */
  async current({ deadlineMs, signal }: CallOptions = {}): Promise<Mission | null> {
    return (await this.#queries.find("mission", { deadlineMs, signal }))?.mission ?? null;
  }
}
