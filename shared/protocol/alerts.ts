/**
 * Alerts: messages for operators, as CloudEvents 1.0 in JSON on `fleet.alert.<tenant>.<severity>.<task>`.
 * Unlike an event, an alert is not part of a task's history. It names the place of the facts.
 */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { HANDOFF_FAILURES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { BLOCK_REASONS } from "./recovery-states.ts";
import { SCRUB_KINDS } from "./scrub.ts";
import { SEVERITIES, type Severity } from "./severity.ts";
import { SIGNING_REFUSAL_REASONS } from "./signing-refusal.ts";
import { validate } from "./validation.ts";

const SHREDDING_OBSTACLES = ["held", "promised", "damaged"] as const;

const data = {
  /** A command from this stream became a dead letter. `dead_list` shows it. */
  COMMAND_DEAD: z.object({ stream: z.string(), reason: z.string(), commandId: z.string().nullable() }),
  /**
   * A handoff failed and its task needs an operator: rejected or escalated (critical), or lapsed (a warning).
   */
  HANDOFF_FAILED: z.object({
    handoffId: tokenSchema,
    taskId: tokenSchema,
    state: z.enum(["rejected", "escalated", "lapsed"]),
    reason: z.enum(HANDOFF_FAILURES),
    /** The agent type that it was meant for. Absent: none was chosen yet. */
    toAgentType: z.string().exactOptional(),
    /** The agent that had accepted it. */
    acceptedBy: z.string().exactOptional(),
    /** The number of the recovery attempt since the budget was last full. Absent: it was no recovery. */
    recoveryAttempt: z.int().exactOptional(),
  }),
  /** A task cannot be recovered and waits for an operator (critical). */
  RECOVERY_BLOCKED: z.object({
    taskId: z.string(),
    reason: z.enum(BLOCK_REASONS),
    /** The class of the newest failure. null: no agent failed. */
    class: z.enum(FAILURE_CLASSES).nullable(),
    /** The agent that failed last. */
    agentId: z.string().nullable().default(null),
    /**
     * The report of the agent or its runner about the failure, or the corrupt record: shortened, with secrets
     * redacted.
     */
    details: z.string().nullable().default(null),
    /** The number of attempts since the budget was last full. */
    attempts: z.int(),
  }),
  /**
   * A stored record is corrupt, and is none that could be quarantined. `scrub_findings` lists it. A warning
   * for an earlier version of a checkpoint, critical for a record by which others are found.
   */
  SCRUB_FOUND: z.object({ taskId: tokenSchema, kind: z.enum(SCRUB_KINDS), details: z.string() }),
  /** An attempt to sign in the name of a person was refused (a warning). The tenant's audit chain has it too. */
  SIGN_ATTEMPT_FAILED: z.object({
    taskId: tokenSchema,
    caller: z.string(),
    reason: z.enum(SIGNING_REFUSAL_REASONS),
  }),
  /**
   * Two persons have approved that a task is shredded, and its content is still there: a hold (`held`) or a promise of its retention keeps it (a
   * warning), or a damaged record (critical).
   */
  SHREDDING_BLOCKED: z.object({ taskId: tokenSchema, reason: z.enum(SHREDDING_OBSTACLES) }),
  /**
   * A watchdog observed heartbeats for so little of the last window that it detects failures late, or not at
   * all (critical). No task.
   */
  ATTENTION_LOST: z.object({ watchdog: z.string(), heardMs: z.int(), ofMs: z.int() }),
  /**
   * The stream of dead letters has no room for a letter of the largest size. A queued command that cannot be
   * applied waits for room, and later commands wait behind it (critical). No task.
   */
  DEAD_LETTERS_FULL: z.object({ stream: z.string(), letters: z.int(), bytes: z.int(), bytesMax: z.int() }),
  /**
   * The queue or the stream of dead letters is filled to 80 %. When it is full, commands are refused or wait (a
   * warning). No task.
   */
  STREAM_NEARLY_FULL: z.object({ stream: z.string(), messages: z.int(), bytes: z.int(), bytesMax: z.int() }),
  /**
   * A disk of a writer's machine has less than twice its reserve free (critical). Below the reserve, commands are
   * refused. No task.
   */
  DISK_NEARLY_FULL: z.object({
    host: z.string(),
    /** What is on the disk: the records of the store, the streams of the fleet's own bus. */
    diskOf: z.array(z.enum(["store", "bus"])),
    path: z.string(),
    freeBytes: z.int(),
    totalBytes: z.int(),
    /** The reserve. */
    minFreeBytes: z.int(),
  }),
} as const;

/** The subject of an alert that concerns no task. */
export const NO_TASK = "unknown";

export const ALERT_DATA = data;
export type AlertType = keyof typeof data;
export const ALERT_TYPES = Object.keys(data) as AlertType[];

const ALERT_ID = /^[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,128}$/;

export const alertIdSchema = z.string().regex(ALERT_ID, "<tenant>/<task>/<occasion>, the id of an alert");

export const alertSchema = z.looseObject({
  specversion: z.literal("1.0"),
  /** `<tenant>/<task>/<occasion>`: the same for every copy. */
  id: alertIdSchema,
  source: z.literal("fleet"),
  type: z.string(),
  /** The task. `unknown`: the alert concerns none, or the subject of the failed command names none. */
  subject: tokenSchema,
  time: z.iso.datetime({ offset: true }),
  datacontenttype: z.literal("application/json"),
  tenant: tokenSchema,
  severity: z.enum(SEVERITIES),
  data: z.unknown(),
});

export interface Alert<T extends AlertType = AlertType> {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: "fleet";
  readonly type: T;
  readonly subject: string;
  readonly time: string;
  readonly datacontenttype: "application/json";
  readonly tenant: string;
  readonly severity: Severity;
  readonly data: z.infer<(typeof data)[T]>;
}

/** An alert of any origin. Its type may belong to a newer version of Fleet. */
export interface ReceivedAlert extends Omit<Alert, "type" | "data"> {
  readonly type: string;
  readonly data: unknown;
}

/** Throws INVALID for a value that no service of the fleet can have written. */
export function readAlert(value: unknown): ReceivedAlert {
  const alert = validate(alertSchema, value);
  const type = ALERT_TYPES.find((one) => one === alert.type);
  return type === undefined ? alert : { ...alert, data: validate(data[type], alert.data, "data") };
}

/**
 * `occasion` is a token that tells the alerts of a task apart. It is the same for every report of the same
 * occasion.
 */
export function alertOf<T extends AlertType>(
  type: T,
  severity: Severity,
  of: { tenant: string; task: string; occasion: string; nowMs: number; data: Alert<T>["data"] },
): Alert<T> {
  return {
    specversion: "1.0",
    id: alertId(of),
    source: "fleet",
    type,
    subject: of.task,
    time: new Date(of.nowMs).toISOString(),
    datacontenttype: "application/json",
    tenant: of.tenant,
    severity,
    data: of.data,
  };
}

export function alertId({ tenant, task, occasion }: ReturnType<typeof parseAlertId>): string {
  return `${tenant}/${task}/${occasion}`;
}

/** The tenant, task and occasion in the id of an alert. */
export function parseAlertId(id: string): Readonly<Record<"tenant" | "task" | "occasion", string>> {
  const [tenant = "", task = "", occasion = ""] = id.split("/");
  return { tenant, task, occasion };
}
