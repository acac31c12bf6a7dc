/** Telling people: an alert is stored when this resolves. Told again, under the same id, it is one alert for as long as the stream remembers. */
import type { Alert } from "../../protocol/alerts.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../protocol/subjects.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Metrics } from "../../runtime/observability/metrics.ts";
import type { Bus } from "../bus.ts";

const PUBLISH_MS = 5_000;

const encoder = new TextEncoder();

export interface Alerting {
  readonly bus: Pick<Bus, "publishDurable">;
  readonly metrics: Pick<Metrics, "alertsTotal">;
  readonly log: Logger;
}

/** Throws BusError; then say it again. */
export async function publishAlert({ bus, metrics, log }: Alerting, alert: Alert): Promise<void> {
  const { id, tenant, severity, type, subject: task } = alert;
  const ack = await bus.publishDurable(
    SUBJECTS.alert(tenant, severity, task),
    { body: encoder.encode(JSON.stringify(alert)), headers: { [HEADERS.contentType]: CONTENT_TYPES.event } },
    { messageId: id, timeoutMs: PUBLISH_MS },
  );
  if (ack.duplicate) return;
  metrics.alertsTotal.inc({ type, severity });
  log.warn({ tenant, task_id: task, alert_id: id, type, severity }, "people were alerted");
}
