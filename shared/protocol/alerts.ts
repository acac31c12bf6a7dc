/**
 * Alerts: what a person has to look at, as CloudEvents 1.0 in JSON on `fleet.alert.<tenant>.<severity>.<task>`. Unlike events they are
 * no part of a task's history; each names where the facts are.
 */
import { z } from "zod";
import { HANDOFF_FAILURES } from "./handoff.ts";

export const SEVERITIES = ["warning", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];

const data = {
  /** A command out of this stream became a dead letter; `dead_list` shows it. */
  COMMAND_DEAD: z.object({ stream: z.string(), reason: z.string(), commandId: z.string().nullable() }),
  /** A handoff came to nothing, and its task waits for somebody: rejected, escalated (critical), or lapsed (a warning). */
  HANDOFF_FAILED: z.object({
    handoffId: z.string(),
    taskId: z.string(),
    state: z.enum(["rejected", "escalated", "lapsed"]),
    reason: z.enum(HANDOFF_FAILURES),
  }),
} as const;

export const ALERT_DATA = data;
export type AlertType = keyof typeof data;
export const ALERT_TYPES = Object.keys(data) as AlertType[];

export const alertSchema = z.looseObject({
  specversion: z.literal("1.0"),
  /** The same for every copy. */
  id: z.string(),
  source: z.literal("fleet"),
  type: z.string(),
  /** The task; `unknown` where the subject of what failed names none. */
  subject: z.string(),
  time: z.string(),
  datacontenttype: z.literal("application/json"),
  tenant: z.string(),
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

export function alertOf<T extends AlertType>(
  type: T,
  severity: Severity,
  of: { id: string; tenant: string; task: string; nowMs: number; data: Alert<T>["data"] },
): Alert<T> {
  return {
    specversion: "1.0",
    id: of.id,
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
