/**
 * A specialist of a mission (seed 002, "Integration with Specialists"): it works on the sorties that are assigned to it,
 * reports its progress, and continues a sortie that was begun before with its own recovery context.
 */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { RecoveryContext, Sortie } from "../../protocol/mission.ts";
import type { CallOptions } from "../request/request.ts";
import type { MissionHandle, MissionResult } from "./mission.ts";

export interface AssignmentWork {
  /** The sortie has not been worked on. */
  begin(sortie: Sortie): Promise<void>;
  /** It was begun, by this agent before it lost its context or by another one. `prompt`: {@link MissionHandle.recoveryPrompt}. */
  resume(sortie: Sortie, recovery: { context: RecoveryContext; prompt: string }): Promise<void>;
}

export class Specialist {
  readonly agentId: string;
  readonly #mission: MissionHandle;
  #sortieId: string | null = null;

  constructor(mission: MissionHandle, agentId: string) {
    this.#mission = mission;
    this.agentId = agentId;
  }

  /** Works on a sortie that is assigned to this agent. Throws NOT_FOUND for another one. */
  async onAssignment(
    sortieId: string,
    { begin, resume }: AssignmentWork,
    options: CallOptions = {},
  ): Promise<void> {
    const sortie = await this.#assigned(sortieId, options);
    this.#sortieId = sortieId;
    // Read before the report, which would be the last action.
    const recovery = sortie.started_at === null ? null : await this.#recovery(options);
    await this.#mission.updateSortie(sortieId, { status: "in_progress" }, options);
    if (recovery === null) await begin(sortie);
    else await resume(sortie, recovery);
  }

  /** Kept with the sortie that is worked on, and in its checkpoints. null: there is none. */
  async reportProgress(notes: string, options: CallOptions = {}): Promise<MissionResult | null> {
    if (this.#sortieId === null) return null;
    return this.#mission.reportProgress(this.#sortieId, notes, options);
  }

  /** Seed 002, `getMyRecoveryContext`. null: this agent has no sortie in the mission. */
  recoveryContext(
    options: CallOptions & { readonly checkpointId?: string } = {},
  ): Promise<RecoveryContext | null> {
    return this.#mission.recoveryContext({ ...options, agentId: this.agentId });
  }

  async #recovery(options: CallOptions): Promise<{ context: RecoveryContext; prompt: string } | null> {
    const context = await this.recoveryContext(options);
    const prompt = await this.#mission.recoveryPrompt({ ...options, agentId: this.agentId });
    return context === null || prompt === null ? null : { context, prompt: prompt.text };
  }

  async #assigned(sortieId: string, options: CallOptions): Promise<Sortie> {
    const mine = { ...options, assignedTo: this.agentId, limit: LIMITS.sorties_limit_max };
    for (let cursor: string | undefined; ; ) {
      const page = await this.#mission.sorties({ ...mine, cursor });
      const sortie = page.sorties.find(({ sortie_id }) => sortie_id === sortieId);
      if (sortie !== undefined) return sortie;
      cursor = page.cursor;
      if (cursor !== undefined) continue;
      throw new FleetError("NOT_FOUND", "no such sortie is assigned to the agent", {
        details: { mission_id: this.#mission.id, sortie_id: sortieId, agent_id: this.agentId },
      });
    }
  }
}
