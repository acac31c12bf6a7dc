/**
 * A specialist of a mission (seed 002, "Integration with Specialists"): it works on the sorties that are assigned to it,
 * reports its progress, and continues a sortie that was begun before with its own recovery context.
 */
import { recoveryPrompt } from "../../prompts/recovery-prompt.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { RecoveryContext, Sortie } from "../../protocol/mission.ts";
import type { MissionMessage } from "../../protocol/mission-messages.ts";
import type { CallOptions } from "../request/request.ts";
import type { FileLock } from "./file-lock.ts";
import type { MissionHandle, MissionResult } from "./mission.ts";
import type { ReceiveOptions } from "./received-messages.ts";

export interface SortieRecovery {
  /** Its blockers name the files that the agent did not get. */
  readonly context: RecoveryContext;
  /** The context as a prompt, like that of {@link MissionHandle.recoveryPrompt}. */
  readonly prompt: string;
  /** The locks on the files of the sortie, which are held until the work has ended. */
  readonly locks: readonly FileLock[];
}

export interface AssignmentWork {
  /** The sortie has not been worked on. */
  begin(sortie: Sortie): Promise<void>;
  /** It was begun, by this agent before it lost its context or by another one. */
  resume(sortie: Sortie, recovery: SortieRecovery): Promise<void>;
}

export interface AssignmentResult {
  /** Why files of a resumed sortie could not be locked, such as by which agent they are held. */
  readonly blockers: readonly string[];
}

export class Specialist {
  readonly agentId: string;
  readonly #mission: MissionHandle;
  #sortieId: string | null = null;

  constructor(mission: MissionHandle, agentId: string) {
    this.#mission = mission;
    this.agentId = agentId;
  }

  /**
   * Works on a sortie that is assigned to this agent. One that was begun is resumed with the locks on its modified files;
   * a file that another agent holds is a blocker, and the work begins without it. An error of the work is recorded in the
   * mission and thrown. Throws NOT_FOUND for another sortie.
   */
  async onAssignment(
    sortieId: string,
    { begin, resume }: AssignmentWork,
    options: CallOptions = {},
  ): Promise<AssignmentResult> {
    const sortie = await this.#assigned(sortieId, options);
    this.#sortieId = sortieId;
    // Read before the report, which would be the last action.
    const context = sortie.started_at === null ? null : await this.recoveryContext(options);
    const change = { status: "in_progress" } as const;
    const { progressPercent } = await this.#mission.updateSortie(sortieId, change, options);
    if (context === null) {
      await this.#recordingErrors(() => begin(sortie));
      return { blockers: [] };
    }
    await using held = await this.#lockModified(sortie, context, options);
    const { locks, blockers } = held;
    const blocked = { ...context, blockers: [...context.blockers, ...blockers] };
    const { text: prompt } = recoveryPrompt({ context: blocked, progressPercent });
    await this.#recordingErrors(() => resume(sortie, { context: blocked, prompt, locks }));
    return { blockers };
  }

  /** Kept with the sortie that is worked on, and in its checkpoints. null: there is none. */
  async reportProgress(notes: string, options: CallOptions = {}): Promise<MissionResult | null> {
    if (this.#sortieId === null) return null;
    return this.#mission.reportProgress(this.#sortieId, notes, options);
  }

  /** As {@link MissionHandle.messages}. */
  messages(options: ReceiveOptions = {}): AsyncGenerator<MissionMessage, void, undefined> {
    return this.#mission.messages(options);
  }

  /** Seed 002, `getMyRecoveryContext`. null: this agent has no sortie in the mission. */
  recoveryContext(
    options: CallOptions & { readonly checkpointId?: string } = {},
  ): Promise<RecoveryContext | null> {
    return this.#mission.recoveryContext({ ...options, agentId: this.agentId });
  }

  /** US-302: an error of the work is recorded before it is handled. A refused record must not hide the error. */
  async #recordingErrors(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      await this.#mission.onError(error).catch(() => {});
      throw error;
    }
  }

  /** The context may name files of other sorties too, whose locks belong to those. */
  async #lockModified(
    { sortie_id: sortieId, title, files }: Sortie,
    { files_modified }: RecoveryContext,
    { signal }: CallOptions,
  ): Promise<HeldFiles> {
    const held = new HeldFiles();
    const purpose = title.slice(0, LIMITS.lock_purpose_chars_max);
    for (const path of files.filter((file) => files_modified.includes(file))) {
      try {
        held.locks.push(await this.#mission.lock(path, { sortieId, purpose, signal }));
      } catch (error) {
        if (!(error instanceof FleetError) || signal?.aborted === true) {
          await held[Symbol.asyncDispose]();
          throw error;
        }
        held.blockers.push(blockerOf(path, error));
      }
    }
    return held;
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

class HeldFiles implements AsyncDisposable {
  readonly locks: FileLock[] = [];
  readonly blockers: string[] = [];

  /** A lock that cannot be released ends with its time, and must not lose the result of the work. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.locks.map((lock) => lock.release()));
  }
}

function blockerOf(path: string, { code, message, details: { held_by, until } }: FleetError): string {
  return code === "CONFLICT" && typeof held_by === "string"
    ? `The lock on ${path} is held by ${held_by} until ${until}`
    : `The file ${path} could not be locked: ${message}`;
}
