/** What every operation of the client is made of: a command sent on its way, a query asked, and which task a checkpoint belongs to. */
import { uuidv7 } from "uuidv7";
import type { CommandAnswer, CommittedAnswer } from "../../protocol/answers.ts";
import { FleetError } from "../../protocol/errors.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type { CorruptCheckpoint, QueryResults } from "../../protocol/queries.ts";
import { type CommandOp, type QueryOp, SUBJECTS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { toCamel, toSnake } from "../case-convert.ts";
import { type Answer, Delivery, type Fallback } from "../delivery/command-delivery.ts";
import type { TaskOrder } from "../delivery/command-order.ts";
import type { Link } from "../request/connection.ts";
import { type AskOptions, ask } from "../request/request.ts";
import type { Spool } from "../spool/spool.ts";
import type { ChangeOptions, CommandOptions, TakeOptions } from "./options.ts";
import type { Committed, Outcome } from "./outcome.ts";

/** Something that is not an error of the call, but must not go unseen. */
export interface FleetWarning {
  readonly code: "CHECKPOINT_CORRUPT" | "LARGE_CHECKPOINT" | "SPOOL_SET_ASIDE";
  readonly text: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface ClientContext {
  readonly link: Link;
  readonly spool: Spool | undefined;
  readonly order: TaskOrder;
  readonly fallback: Fallback;
  readonly clock: Clock;
  /** Default: silent. */
  readonly log?: Logger;
  readonly tenant: string;
  readonly agentId: string;
  readonly onWarning: (warning: FleetWarning) => void;
}

/** Tasks of the checkpoints that this client saw last, so that changing them needs no look-up. */
const TASKS_REMEMBERED = 10_000;

/** Queries that set something going. */
const CHANGING: ReadonlySet<QueryOp> = new Set<QueryOp>([
  "index_rebuild",
  "scrub_start",
  "dead_retry",
  "dead_drop",
  "alert_ack",
]);

export class Calls {
  readonly #context: ClientContext;
  readonly #delivery: Delivery;
  readonly #taskOf = new Map<string, string>();

  constructor(context: ClientContext) {
    this.#context = context;
    this.#delivery = new Delivery(context);
  }

  async send<A extends CommandAnswer>(
    op: CommandOp,
    taskId: string,
    body: object,
    options: CommandOptions & TakeOptions,
  ): Promise<{ answer: Answer<A>; commandId: string }> {
    const { fence, expectedVersion, expectedFence } = options;
    // One spelling of an id on the wire: a retry must repeat its bytes.
    const commandId = options.commandId === undefined ? uuidv7() : normalizeCheckpointId(options.commandId);
    const whole = { ...body, ...toSnake({ fence, expectedVersion, expectedFence }) };
    try {
      const answer = await this.#delivery.deliver<A>({ op, taskId, commandId, body: whole }, options);
      return { answer, commandId };
    } catch (error) {
      throw withCommand(error, commandId);
    }
  }

  /** A command that writes a version of a checkpoint, which `checkpointOf` names. */
  async command(
    op: CommandOp,
    taskId: string,
    body: object,
    options: CommandOptions,
    checkpointOf: (commandId: string) => string,
  ): Promise<Outcome> {
    const { answer, commandId } = await this.send<CommittedAnswer>(op, taskId, body, options);
    const checkpointId = checkpointOf(commandId);
    this.#remember(checkpointId, taskId);
    return this.#outcome(answer, { commandId, taskId, checkpointId });
  }

  async query<Op extends QueryOp>(op: Op, body: object, options: AskOptions): Promise<QueryResults[Op]> {
    const { clock, link, tenant } = this.#context;
    const answer = await ask<{ result: QueryResults[Op] }>(
      { bus: link.bus, clock },
      SUBJECTS.query(tenant, op),
      body,
      { ...options, effect: CHANGING.has(op) },
    );
    return answer.result;
  }

  /** Newer checkpoints that were passed over. */
  warnOfCorrupt(taskId: string, passedOver: readonly CorruptCheckpoint[]): void {
    for (const corrupt of passedOver) {
      this.#context.onWarning({
        code: "CHECKPOINT_CORRUPT",
        text: "a newer checkpoint is corrupt and was passed over",
        details: { task_id: taskId, ...corrupt },
      });
    }
  }

  async taskOf(id: string, options: Pick<ChangeOptions, "taskId" | keyof AskOptions>): Promise<string> {
    const known = options.taskId ?? this.#taskOf.get(normalizeCheckpointId(id));
    if (known !== undefined) return known;
    const found = await this.query("get", { checkpoint_id: id }, options);
    const { checkpoint_id, task_id } = found.checkpoint.metadata;
    this.#remember(checkpoint_id, task_id);
    return task_id;
  }

  #outcome(
    answer: Answer<CommittedAnswer>,
    ids: { commandId: string; taskId: string; checkpointId: string },
  ): Outcome {
    if (answer.status === "spooled") return { outcome: "spooled", ...ids };
    if (answer.status === "queued") return { outcome: "queued", ...ids, position: answer.position };
    const { status, ...rest } = answer;
    if (answer.warnings?.includes("large_checkpoint")) {
      this.#context.onWarning({
        code: "LARGE_CHECKPOINT",
        text: "the checkpoint is large; keep artifacts elsewhere and refer to them",
        details: { checkpoint_id: answer.checkpoint_id, task_id: ids.taskId },
      });
    }
    return { ...(toCamel(rest) as Omit<Committed, "outcome">), outcome: status };
  }

  #remember(id: string, taskId: string): void {
    if (this.#taskOf.size >= TASKS_REMEMBERED) this.#taskOf.clear();
    this.#taskOf.set(id, taskId);
  }
}

export async function orNull<T>(query: Promise<T>): Promise<T | null> {
  try {
    return await query;
  } catch (error) {
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}

/** After a TIMEOUT the caller may ask again, and needs the id to do so. */
function withCommand(error: unknown, commandId: string): unknown {
  if (!(error instanceof FleetError) || error.code !== "TIMEOUT") return error;
  return new FleetError(error.code, error.message, {
    fields: error.fields,
    details: { ...error.details, command_id: commandId },
    cause: error,
  });
}
