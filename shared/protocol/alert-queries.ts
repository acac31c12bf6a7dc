/** Queries for alerts, and their acknowledgement. */
import { z } from "zod";
import { ALERT_TYPES, alertIdSchema, alertSchema, type ReceivedAlert } from "./alerts.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";
import { SEVERITIES } from "./severity.ts";

/** Newest first. */
export const alertsQuerySchema = z.looseObject({
  task_id: tokenSchema.optional(),
  severity: z.enum(SEVERITIES, { error: `one of ${SEVERITIES.join(", ")}` }).optional(),
  type: z.enum(ALERT_TYPES, { error: `one of ${ALERT_TYPES.join(", ")}` }).optional(),
  /** Only acknowledged alerts, or only the others. Absent: all. */
  acknowledged: z.boolean().optional(),
  /** Only resolved alerts, or only the others. Absent: all. */
  resolved: z.boolean().optional(),
  limit: pageLimit(LIMITS.alerts_limit_max, LIMITS.alerts_limit_default),
  cursor: z.string().max(1_024).optional(),
});

export const alertQuerySchema = z.looseObject({ alert_id: alertIdSchema });

export const alertAckQuerySchema = z.looseObject({
  alert_ids: z.array(alertIdSchema).min(1).max(LIMITS.alert_acks_count_max),
  note: z
    .string()
    .max(LIMITS.alert_note_chars_max, `at most ${LIMITS.alert_note_chars_max} characters`)
    .optional(),
});

/** The first acknowledgement of an alert; later ones change nothing. */
export interface Acknowledgement {
  readonly by: string;
  readonly at: string;
  readonly note: string | null;
}

export interface AlertState {
  readonly alert: ReceivedAlert;
  /** null: no operator has acknowledged it. */
  readonly acknowledgement: Acknowledgement | null;
  /**
   * True if its cause is gone, by the head of its task or the stream of dead letters at the time of the
   * answer. False also if these cannot tell.
   */
  readonly resolved: boolean;
}

export interface AlertPage {
  readonly alerts: readonly AlertState[];
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  readonly cursor?: string;
}

export interface AcknowledgedAlert {
  readonly alert_id: string;
  readonly acknowledgement: Acknowledgement;
  /** True if it was acknowledged before and this request changed nothing. */
  readonly already: boolean;
}

export interface AcknowledgedAlerts {
  /** In the order of the request, each id once. */
  readonly alerts: readonly AcknowledgedAlert[];
}

const acknowledgementSchema = z.looseObject({ by: z.string(), at: z.string(), note: z.string().nullable() });

export const alertStateSchema = z.looseObject({
  alert: alertSchema,
  acknowledgement: acknowledgementSchema.nullable(),
  resolved: z.boolean(),
});

export const alertPageSchema = z.looseObject({
  alerts: z.array(alertStateSchema),
  cursor: z.string().exactOptional(),
});

export const acknowledgedAlertsSchema = z.looseObject({
  alerts: z.array(
    z.looseObject({ alert_id: z.string(), acknowledgement: acknowledgementSchema, already: z.boolean() }),
  ),
});
