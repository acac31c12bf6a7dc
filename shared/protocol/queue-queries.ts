/** Queries about the queue and its dead letters. */
import { z } from "zod";
import type { ErrorBody } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

export const deadListQuerySchema = z.looseObject({
  limit: pageLimit(LIMITS.dead_limit_max, LIMITS.dead_limit_default),
  /** The first letter of the page, by its position in the stream of dead letters. */
  from_seq: z.int().min(1).default(1),
});

export const deadLetterQuerySchema = z.looseObject({ seq: z.int().min(1) });

/** The state of the queue over all tenants, in numbers only. Dead letters are counted for the tenant alone. */
export interface QueueStatus {
  /** Commands that wait to be applied. */
  readonly depth: number;
  /** The age of the oldest command. null: the queue is empty. */
  readonly oldest_age_ms: number | null;
  readonly bytes: number;
  /** At this size the queue refuses commands. */
  readonly bytes_max: number;
  /** Commands that have left the queue since its creation: applied, or dead letters now. */
  readonly left_total: number;
  /** The tenant's dead letters, which need an operator. */
  readonly dead: number;
  /** The store as the reader sees it. `away`: it is unavailable; `full`: its disk is. Then the queue only grows. */
  readonly store: "ok" | "away" | "full";
  /** False: the disk of the queue is full, and it refuses commands. Absent from older fleets. */
  readonly accepts?: boolean;
}

/** A command that could not be applied, with the error. */
export interface DeadLetter {
  /** Its position among the dead letters, by which `dead_retry` and `dead_drop` name it. */
  readonly seq: number;
  /** The stream that it came from. */
  readonly stream: string;
  /** The error code in lower case. */
  readonly reason: string;
  readonly error: ErrorBody;
  /** The tenant, agent, task and operation in its subject. null: that part of the subject is no token. */
  readonly tenant: string | null;
  readonly agent_id: string | null;
  readonly task_id: string | null;
  readonly op: string | null;
  /** null: it has no readable id. */
  readonly command_id: string | null;
  readonly queued_at: string;
  readonly dead_at: string;
  /** The size of the command's body. */
  readonly size_bytes: number;
  /**
   * The time at which a copy of the command was applied. null: none was, or over two days ago, or the store
   * is unavailable.
   */
  readonly applied_at: string | null;
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** The first letter of the next page. null on the last page. */
  readonly next_seq: number | null;
}

export interface RetriedLetter {
  readonly seq: number;
  readonly command_id: string | null;
  /** Its new position in the queue's stream. */
  readonly position: number;
  /** The time at which a copy of the command was applied before. The retry then has no effect. */
  readonly applied_at: string | null;
}

export interface DroppedLetter {
  readonly seq: number;
  readonly command_id: string | null;
}
