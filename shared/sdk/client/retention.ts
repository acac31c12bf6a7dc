/** `fleet.admin.retention`: what is kept of tasks. For operators. */

import type { RemovedAnswer, RetentionAnswer } from "../../protocol/answers.ts";
import { FleetError } from "../../protocol/errors.ts";
import { groupBy } from "../../protocol/group-by.ts";
import type { HoldPage } from "../../protocol/holds.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryInput } from "../../protocol/queries.ts";
import type { PrunableCheckpoint, PrunablePage } from "../../protocol/retention-queries.ts";
import type { ShredAnswer, ShredPage } from "../../protocol/shred.ts";
import type { ShredEvidence } from "../../protocol/shred-certificate.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import type { CallOptions } from "../request/request.ts";
import { resultOf } from "./outcome.ts";
import type { TaskParts } from "./task.ts";

/** Tasks whose checkpoints are removed at the same time. */
const TASKS_AT_ONCE = 8;

/** `olderThanDays` and `keep` replace the values of the settings. */
export interface PruneOptions extends CallOptions {
  /** Only of this task. */
  readonly taskId?: string | undefined;
  readonly olderThanDays?: number | undefined;
  /** The newest checkpoints of a task that stay in any case. */
  readonly keep?: number | undefined;
}

/** In the shape of seed 002: a mission is a task. */
export interface PruneResult {
  readonly deleted: number;
  readonly freed_bytes: number;
  readonly details: readonly { readonly id: string; readonly mission_id: string }[];
  /** Checkpoints that retention has come to keep since the preview, with the error. */
  readonly refused: readonly {
    readonly id: string;
    readonly mission_id: string;
    readonly error: FleetError;
  }[];
}

/** Names of holds. `reason` is a code, such as `litigation`. Both of the last two stand in the audit trail. */
export interface HoldChange {
  readonly hold?: string | undefined;
  readonly release?: string | undefined;
  readonly reason?: string | undefined;
  readonly caseReference?: string | undefined;
}

export class RetentionAdmin {
  readonly #parts: TaskParts;

  constructor(parts: TaskParts) {
    this.#parts = parts;
  }

  /** A page of the checkpoints that a prune would remove now. */
  prunable(query: Camel<QueryInput<"prunable">> & CallOptions = {}): Promise<PrunablePage> {
    return this.#parts.queries.send("prunable", query);
  }

  /** All of them, by task. */
  async allPrunable(options: PruneOptions = {}): Promise<PrunableCheckpoint[]> {
    const all: PrunableCheckpoint[] = [];
    let cursor: string | undefined;
    do {
      const page = await this.prunable({ ...options, cursor, limit: LIMITS.prunable_limit_max });
      all.push(...page.checkpoints);
      cursor = page.cursor;
    } while (cursor !== undefined);
    return all;
  }

  /**
   * Removes one checkpoint, of any age. Throws CONFLICT with the `reason` for one that retention keeps, NOT_FOUND for one that is
   * removed already. `keep`: how many of the newest stay.
   */
  async remove(
    checkpointId: string,
    { taskId, keep, ...call }: Omit<PruneOptions, "olderThanDays"> & { readonly commandId?: string } = {},
  ): Promise<Omit<Camel<RemovedAnswer>, "status">> {
    const task = taskId ?? (await this.#parts.tasks.find(checkpointId, call));
    const body = toSnake({ checkpointId: normalizeCheckpointId(checkpointId), keep });
    return resultOf(await this.#parts.delivery.deliverNow("remove", task, body, call));
  }

  /**
   * Removes these checkpoints, or all that are prunable, each by a command of its own that decides again. So a prune may be
   * interrupted and repeated. `onRemoved` is called after each.
   */
  async prune(
    options: PruneOptions & {
      readonly checkpoints?: readonly PrunableCheckpoint[];
      readonly dryRun?: boolean;
      readonly onRemoved?: (removed: number) => void;
    } = {},
  ): Promise<PruneResult> {
    const { dryRun = false, onRemoved = () => {} } = options;
    const { taskId, olderThanDays, keep, deadlineMs, signal } = options;
    const asked = { taskId, olderThanDays, keep, deadlineMs, signal };
    const listed = options.checkpoints ?? (await this.allPrunable(asked));
    if (dryRun) return planned(listed);
    const details: { id: string; mission_id: string }[] = [];
    const refused: { id: string; mission_id: string; error: FleetError }[] = [];
    let freed_bytes = 0;
    const tasks = [...groupBy(listed, ({ task_id }) => task_id).values()];
    const removeNext = async (): Promise<void> => {
      for (let ofTask = tasks.shift(); ofTask !== undefined; ofTask = tasks.shift()) {
        // One after the other, because each command writes the head of the task.
        for (const { checkpoint_id: id, task_id: mission_id } of ofTask) {
          try {
            freed_bytes += await this.#removeDue(id, mission_id, options);
            details.push({ id, mission_id });
            onRemoved(details.length);
          } catch (error) {
            if (!(error instanceof FleetError) || !KEPT.has(error.code)) throw error;
            refused.push({ id, mission_id, error });
          }
        }
      }
    };
    await Promise.all(Array.from({ length: TASKS_AT_ONCE }, removeNext));
    return { deleted: details.length, freed_bytes, details, refused };
  }

  /** Returns the freed bytes. */
  async #removeDue(
    id: string,
    task: string,
    { olderThanDays, keep, deadlineMs, signal }: PruneOptions,
  ): Promise<number> {
    const body = toSnake({ checkpointId: id, olderThanDays, keep, ifDue: true });
    const answer = await this.#parts.delivery.deliverNow("remove", task, body, { deadlineMs, signal });
    return answer.freed_bytes;
  }

  /** Changes the policy of new checkpoints that name none; null: that of the settings. Throws INVALID for one below the retention floor. */
  async retain(
    taskId: string,
    policy: string | null,
    call: CallOptions = {},
  ): Promise<Omit<Camel<RetentionAnswer>, "status">> {
    const body = { retention_policy: policy };
    return resultOf(await this.#parts.delivery.deliverNow("retain", taskId, body, call));
  }

  /** Places or releases a hold of a task, or both. While it has one, nothing of it is removed. */
  async hold(
    taskId: string,
    { hold, release, reason, caseReference, ...call }: CallOptions & HoldChange,
  ): Promise<Omit<Camel<RetentionAnswer>, "status">> {
    const body = toSnake({ hold, release, reason, case: caseReference });
    return resultOf(await this.#parts.delivery.deliverNow("hold", taskId, body, call));
  }

  /** Asks that all content of a task is removed. For a person; another one must approve it. */
  async requestShred(
    taskId: string,
    {
      reason,
      caseReference,
      ...call
    }: CallOptions & Pick<HoldChange, "caseReference"> & { readonly reason: string },
  ): Promise<Omit<Camel<ShredAnswer>, "status">> {
    const body = toSnake({ reason, case: caseReference });
    return resultOf(await this.#parts.delivery.deliverNow("shred_request", taskId, body, call));
  }

  /** `requestSeq`: `request_seq` of the request that the person has seen. */
  async approveShred(
    taskId: string,
    requestSeq: number,
    call: CallOptions = {},
  ): Promise<Omit<Camel<ShredAnswer>, "status">> {
    const body = { request_seq: requestSeq };
    return resultOf(await this.#parts.delivery.deliverNow("shred_approve", taskId, body, call));
  }

  /** Before the approval. */
  async cancelShred(
    taskId: string,
    requestSeq: number,
    call: CallOptions = {},
  ): Promise<Omit<Camel<ShredAnswer>, "status">> {
    const body = { request_seq: requestSeq };
    return resultOf(await this.#parts.delivery.deliverNow("shred_cancel", taskId, body, call));
  }

  /** What proves, without the fleet, that the content of a task was removed. Throws NOT_FOUND unless it was. */
  async shredCertificate(taskId: string, call: CallOptions = {}): Promise<ShredEvidence> {
    const { queries } = this.#parts;
    const certificate = await queries.send("shred_certificate", { ...call, taskId });
    const checkpoints: ShredEvidence["checkpoints"] = [];
    let cursor: string | undefined;
    do {
      const page = await queries.send("history", { ...call, taskId, order: "oldest", cursor });
      for (const { checkpoint_id, version, hash, seq } of page.removed ?? [])
        checkpoints.push({ checkpoint_id, version, hash, seq });
      cursor = page.cursor;
    } while (cursor !== undefined);
    return { ...certificate, checkpoints };
  }

  /** A page of the tasks whose shredding was requested. */
  shreds(query: Camel<QueryInput<"shreds">> & CallOptions = {}): Promise<ShredPage> {
    return this.#parts.queries.send("shreds", query);
  }

  /** A page of all holds of the tenant. */
  holds(query: Camel<QueryInput<"holds">> & CallOptions = {}): Promise<HoldPage> {
    return this.#parts.queries.send("holds", query);
  }
}

/** Retention has come to keep it, another call has removed it, or it does not verify. */
const KEPT: ReadonlySet<FleetError["code"]> = new Set(["CONFLICT", "NOT_FOUND", "CORRUPT"]);

function planned(listed: readonly PrunableCheckpoint[]): PruneResult {
  return {
    deleted: 0,
    freed_bytes: 0,
    details: listed.map(({ checkpoint_id: id, task_id: mission_id }) => ({ id, mission_id })),
    refused: [],
  };
}
