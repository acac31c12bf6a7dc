/** `fleet.missions`: the list of missions, the current one, and those that can be resumed after a lost context. */
import { type Mission, recoveryQuestion } from "../../protocol/mission.ts";
import type { MissionPage } from "../../protocol/mission-queries.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { Camel } from "../case-convert.ts";
import type { CallOptions } from "../request/request.ts";
import { MissionHandle, type Resumption } from "./mission.ts";
import type { MissionParts } from "./mission-parts.ts";
import { Specialist } from "./specialist.ts";

/** A silent mission and the checkpoint from which it can be resumed. */
export interface AvailableRecovery {
  readonly mission: Mission;
  readonly checkpointId: string;
  /** ISO 8601. */
  readonly checkpointAt: string;
  /** The question to a person, in the words of seed 002. */
  readonly message: string;
}

export interface RecoveryCheck {
  /** Empty after an automatic resumption. */
  readonly available: readonly AvailableRecovery[];
  readonly resumed: readonly Resumption[];
}

export class MissionDirectory {
  readonly #parts: MissionParts;

  constructor(parts: MissionParts) {
    this.#parts = parts;
  }

  /** The work of this agent as a specialist of a mission. */
  specialist(missionId: string): Specialist {
    const mission = new MissionHandle(this.#parts, missionId, undefined);
    return new Specialist(mission, this.#parts.agentId);
  }

  /** Ordered by their ids, in pages. `active`: only those that have not ended. */
  list(query: Camel<QueryInput<"missions">> & CallOptions = {}): Promise<MissionPage> {
    return this.#parts.queries.send("missions", query);
  }

  /** The active missions that this agent coordinates, or in which it has an open sortie. */
  async own(options: CallOptions = {}): Promise<Mission[]> {
    const query = { ...options, active: true, participant: this.#parts.agentId };
    return (await this.#pages(query)).flatMap(({ missions }) => missions);
  }

  /** The active mission with the newest activity, of those that this agent coordinates if there is any; null: there is none. */
  async current({ deadlineMs, signal }: CallOptions = {}): Promise<Mission | null> {
    return (await this.#parts.queries.find("mission", { deadlineMs, signal }))?.mission ?? null;
  }

  /** The silent missions of this agent, and those without a coordinator. A mission is silent until its next activity. */
  async recoverable(options: CallOptions = {}): Promise<AvailableRecovery[]> {
    const pages = await this.#pages({ ...options, recoverable: true });
    return pages.flatMap(({ missions }) =>
      missions.flatMap((mission) => availableRecovery(mission, this.#parts.agentId) ?? []),
    );
  }

  /**
   * The check at the start of a coordinator (seed 002, `initialize`). With `autoResume` each recoverable mission is
   * resumed from its newest checkpoint, otherwise the caller decides.
   */
  async checkForRecovery({
    autoResume = false,
    ...options
  }: CallOptions & { readonly autoResume?: boolean } = {}): Promise<RecoveryCheck> {
    const available = await this.recoverable(options);
    if (!autoResume) return { available, resumed: [] };
    const resumed: Resumption[] = [];
    for (const { mission } of available) {
      const fence = mission.coordinator === null ? undefined : mission.fence;
      resumed.push(await new MissionHandle(this.#parts, mission.mission_id, fence).resume(options));
    }
    return { available: [], resumed };
  }

  async #pages(query: Camel<QueryInput<"missions">> & CallOptions): Promise<MissionPage[]> {
    const pages: MissionPage[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.list({ ...query, cursor });
      pages.push(page);
      cursor = page.cursor;
      if (cursor === undefined) return pages;
    }
  }
}

/** null: the mission is not silent, has no checkpoint, or belongs to another coordinator. */
export function availableRecovery(mission: Mission, agentId: string): AvailableRecovery | null {
  const { checkpoint_id: checkpointId = null, checkpoint_at: checkpointAt = null } = mission.silence ?? {};
  if (checkpointId === null || checkpointAt === null) return null;
  if (mission.coordinator !== null && mission.coordinator !== agentId) return null;
  return { mission, checkpointId, checkpointAt, message: recoveryQuestion(checkpointAt) };
}
