/** Publishes alerts. A repetition with the same id within the stream's duplicate window is the same alert. */
import type { Alert } from "../../protocol/alerts.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../protocol/subjects.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Metrics } from "../../runtime/observability/metrics.ts";
import type { Bus } from "../bus.ts";

const PUBLISH_MS = 5_000;

const encoder = new TextEncoder();

export interface AlertParts {
  readonly bus: Pick<Bus, "publishDurable">;
  readonly metrics: Pick<Metrics, "alertsTotal">;
  readonly log: Logger;
}

/** Resolves when the alert is stored. Throws BusError; then publish it again. */
export async function publishAlert({ bus, metrics, log }: AlertParts, alert: Alert): Promise<void> {
  const { id, tenant, severity, type, subject: task } = alert;
  const ack = await bus.publishDurable(
    SUBJECTS.alert(tenant, severity, task),
    { body: encoder.encode(JSON.stringify(alert)), headers: { [HEADERS.contentType]: CONTENT_TYPES.event } },
    { messageId: id, timeoutMs: PUBLISH_MS, isCopy: (stored) => isAlert(stored, alert) },
  );
  if (ack.duplicate) return;
  metrics.alertsTotal.inc({ type, severity });
  log.warn({ tenant, task_id: task, alert_id: id, type, severity }, "operators were alerted");
}

/** A repetition after a crash may have another time, and other counts in its data. */
function isAlert(stored: Uint8Array, { id, type, severity, tenant, subject }: Alert): boolean {
  try {
    const known = JSON.parse(Buffer.from(stored).toString()) as Alert;
    const same = { id, type, severity, tenant, subject };
    return Object.entries(same).every(([name, value]) => known[name as keyof Alert] === value);
  } catch {
    return false;
  }
}
