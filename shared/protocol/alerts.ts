/**
 * Alerts: what a person has to look at, as CloudEvents 1.0 in JSON on `fleet.alert.<tenant>.<severity>.<task>`. Unlike events they are
 * no part of a task's history; each names where the facts are.
 */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { HANDOFF_FAILURES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { BLOCK_REASONS } from "./recovery-states.ts";
import { SCRUB_KINDS } from "./scrub.ts";
import { SEVERITIES, type Severity } from "./severity.ts";
import { validate } from "./validation.ts";

const data = {
  /** A command out of this stream became a dead letter; `dead_list` shows it. */
  COMMAND_DEAD: z.object({ stream: z.string(), reason: z.string(), commandId: z.string().nullable() }),
  /** A handoff came to nothing, and its task waits for somebody: rejected, escalated (critical), or lapsed (a warning). */
  HANDOFF_FAILED: z.object({
    handoffId: tokenSchema,
    taskId: tokenSchema,
    state: z.enum(["rejected", "escalated", "lapsed"]),
    reason: z.enum(HANDOFF_FAILURES),
    /** To which type of agent it was to go; absent: that was not decided. */
    toAgentType: z.string().exactOptional(),
    /** Who had accepted it. */
    acceptedBy: z.string().exactOptional(),
    /** Which attempt at recovery it was, since the budget was whole; absent: it was none. */
    recoveryAttempt: z.int().exactOptional(),
  }),
  /** A task cannot be recovered, and waits for a person (critical). */
  RECOVERY_BLOCKED: z.object({
    taskId: z.string(),
    reason: z.enum(BLOCK_REASONS),
    /** Of the newest failure: its class, null when nobody failed, and whose it was. */
    class: z.enum(FAILURE_CLASSES).nullable(),
    agentId: z.string().nullable().default(null),
    /** What the agent, or whoever saw its end, said of it, or what does not verify: cut, and without what looks like a secret. */
    details: z.string().nullable().default(null),
    /** Since the budget was whole. */
    attempts: z.int(),
  }),
  /**
   * Something stored does not verify and has no quarantine for it; `scrub_findings` lists it. An earlier version of a checkpoint (a
   * warning), or what others are found by (critical).
   */
  SCRUB_FOUND: z.object({ taskId: tokenSchema, kind: z.enum(SCRUB_KINDS), details: z.string() }),
  /** A watchdog could hear agents for so little of the last while that failures are noticed late, or not at all (critical). Of no task. */
  ATTENTION_LOST: z.object({ watchdog: z.string(), heardMs: z.int(), ofMs: z.int() }),
} as const;

export const ALERT_DATA = data;
export type AlertType = keyof typeof data;
export const ALERT_TYPES = Object.keys(data) as AlertType[];

const ALERT_ID = /^[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,64}\/[A-Za-z0-9_-]{1,128}$/;

export const alertIdSchema = z.string().regex(ALERT_ID, "<tenant>/<task>/<occasion>, as an alert says it");

export const alertSchema = z.looseObject({
  specversion: z.literal("1.0"),
  /** `<tenant>/<task>/<occasion>`: the same for every copy. */
  id: alertIdSchema,
  source: z.literal("fleet"),
  type: z.string(),
  /** The task; `unknown` where the subject of what failed names none, and of an alert that concerns none. */
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

/** What came as an alert, from whomever; its type may be one that a newer version has. */
export interface ReceivedAlert extends Omit<Alert, "type" | "data"> {
  readonly type: string;
  readonly data: unknown;
}

/** Throws INVALID for what no service of the fleet can have written. */
export function readAlert(value: unknown): ReceivedAlert {
  const alert = validate(alertSchema, value);
  const type = ALERT_TYPES.find((one) => one === alert.type);
  return type === undefined ? alert : { ...alert, data: validate(data[type], alert.data, "data") };
}

/** `occasion` tells the alerts of a task apart, and is the same whenever the same thing is told again: a token. */
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

/** Whose alert an id is of, and on which occasion. */
export function parseAlertId(id: string): Readonly<Record<"tenant" | "task" | "occasion", string>> {
  const [tenant = "", task = "", occasion = ""] = id.split("/");
  return { tenant, task, occasion };
}
