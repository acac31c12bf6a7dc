/** Writes the checkpoints of a run: each one new (seed 004), or in place, as new versions of one draft (seed 003, US-001). */
import type { CheckpointInput } from "../../../protocol/checkpoint.ts";
import { FleetError } from "../../../protocol/errors.ts";
import type { CreateOptions } from "../../client/options.ts";
import type { CheckpointOutcome } from "../../client/outcome.ts";
import type { TaskHandle } from "../../client/task.ts";

type Json = Record<string, unknown>;

export class CheckpointWriter {
  readonly #task: TaskHandle;
  readonly #inPlace: boolean;
  /** The draft that the next checkpoint updates. */
  #draft: { readonly id: string; readonly checkpoint: CheckpointInput } | undefined;

  constructor(task: TaskHandle, inPlace: boolean) {
    this.#task = task;
    this.#inPlace = inPlace;
  }

  async write(checkpoint: CheckpointInput, options: CreateOptions): Promise<CheckpointOutcome> {
    const draft = this.#draft;
    const isUpdate = draft !== undefined && isUpdatable(checkpoint);
    if (!isUpdate) return this.#create(checkpoint, options);
    try {
      const patch = patchBetween(sectionsOf(draft.checkpoint), sectionsOf(checkpoint));
      const outcome = await this.#task.update(draft.id, patch, options);
      this.#draft = { id: draft.id, checkpoint: structuredClone(checkpoint) };
      return outcome;
    } catch (error) {
      // The draft was finalized, because another checkpoint of the task followed it.
      if (!(error instanceof FleetError) || error.code !== "FINALIZED") throw error;
      return this.#create(checkpoint, options);
    }
  }

  async #create(checkpoint: CheckpointInput, options: CreateOptions): Promise<CheckpointOutcome> {
    const kept = this.#inPlace ? structuredClone(checkpoint) : undefined;
    const outcome = await this.#task.checkpoint(checkpoint, options);
    if (kept !== undefined) this.#draft = { id: outcome.checkpointId, checkpoint: kept };
    return outcome;
  }
}

/** A handoff and the confirmation of one need a checkpoint of their own. */
function isUpdatable({ execution_state: { phase }, metadata }: CheckpointInput): boolean {
  return phase !== "handoff" && metadata.parent_ids === undefined;
}

/** The members that an update may change. */
function sectionsOf({ metadata, compliance: _, schema_version: _version, ...rest }: CheckpointInput): Json {
  const { iteration, trigger } = metadata;
  return { ...rest, metadata: { ...(iteration !== undefined && { iteration }), trigger } };
}

/** The JSON merge patch (RFC 7396) that turns `before` into `after`. */
function patchBetween(before: Json, after: Json): Json {
  const removed = Object.keys(before).filter((name) => after[name] === undefined);
  const changed = Object.entries(after).flatMap(([name, value]): [string, unknown][] => {
    if (value === undefined) return [];
    const old = before[name];
    if (!isObject(old) || !isObject(value)) return [[name, value]];
    return [[name, patchBetween(old, value)]];
  });
  return Object.fromEntries([...removed.map((name): [string, unknown] => [name, null]), ...changed]);
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
