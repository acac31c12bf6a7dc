/**
 * Posts alerts to the tools of operators. All watchdogs share one durable consumer for each webhook, so one
 * of them posts each alert, and an unavailable receiver delays no other. The alert of a watchdog that crashes
 * between a post and its acknowledgement is posted again under the same id.
 */
import type { Bus, DurableMessage } from "../../../shared/bus/bus.ts";
import { startConsumers } from "../../../shared/bus/consume/background-consumer.ts";
import { decodeBody } from "../../../shared/integrity/wire.ts";
import { type ReceivedAlert, readAlert } from "../../../shared/protocol/alerts.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONTENT_TYPES, STREAMS, SUBJECTS, webhookConsumer } from "../../../shared/protocol/subjects.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { webhookBody } from "./webhook-body.ts";
import { type PostFailure, post } from "./webhook-post.ts";
import { type Reply, verdictOf } from "./webhook-reply.ts";
import type { Webhook } from "./webhook-settings.ts";
import { signatureOf } from "./webhook-signature.ts";

const ANSWER_MS = 10_000;
/** A little longer than one attempt. Another watchdog tries then. */
const ACK_WAIT_MS = 12_000;
/** Concurrent posts to one receiver by each watchdog: a post that hangs must not delay the next alerts. */
const POSTS_MAX = 4;
/** Alerts of one webhook that wait for another attempt. Further alerts wait behind them. */
const WAITING_MAX = 1_000;
const PULL_MS = 30_000;
const PAUSE_MS = { first: 1_000, last: 120_000 };
const EXPIRY_MS = 24 * 3_600_000;
/** How long the position of a webhook that was removed from the settings is kept. */
const FORGOTTEN_MS = 7 * 86_400_000;

export interface WebhooksContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

/** Starts in the background, as soon as the stream is available. A new webhook begins with the next alert. */
export function startWebhooks(context: WebhooksContext, webhooks: readonly Webhook[]): Stop {
  const { backgroundBus: bus, clock, log } = context;
  const consumers = webhooks.map((webhook) => {
    log.info({ hook: webhook.name, signed: webhook.secret !== null }, "alerts are posted to a webhook");
    return {
      options: {
        stream: STREAMS.alerts,
        durable: webhookConsumer(webhook.name),
        filters: filtersOf(webhook),
        maxAckPending: WAITING_MAX,
        concurrencyMax: POSTS_MAX,
        ackWaitMs: ACK_WAIT_MS,
        pullMs: PULL_MS,
        from: "new",
        forgottenAfterMs: FORGOTTEN_MS,
      },
      handle: (message: DurableMessage, signal: AbortSignal) =>
        withSpan(
          "webhook",
          { "fleet.hook": webhook.name },
          () => postAlert(context, webhook, message, signal),
          {
            parent: message.headers,
            kind: "client",
          },
        ),
    } as const;
  });
  return startConsumers({ bus, clock, log }, consumers);
}

function filtersOf({ severities, tenants }: Webhook): string[] {
  return (tenants ?? [undefined]).flatMap((tenant) =>
    (severities ?? [undefined]).map((severity) => SUBJECTS.alertsOf({ tenant, severity })),
  );
}

type PostOutcome = "delivered" | "retried" | "refused" | "expired" | "unreadable";

async function postAlert(
  { clock, log, metrics }: WebhooksContext,
  webhook: Webhook,
  message: DurableMessage,
  signal: AbortSignal,
): Promise<void> {
  const { name: hook } = webhook;
  const count = (outcome: PostOutcome): void => metrics.webhooksTotal.inc({ hook, outcome });
  const alert = read(message, log);
  if (alert === null) {
    count("unreadable");
    return message.dead("not an alert");
  }
  const attempt = message.deliveries;
  const begin = clock.monotonic();
  const reply = await send(webhook, alert, clock.now(), signal);
  if (signal.aborted && "problem" in reply) return message.giveBack();
  const verdict = "problem" in reply ? FAILED_POST : verdictOf(reply, clock.now());
  const ms = Math.round(clock.monotonic() - begin);
  const facts = {
    hook,
    alert_id: alert.id,
    tenant: alert.tenant,
    task_id: alert.subject,
    attempt,
    ms,
    ...("problem" in reply ? reply : { status: reply.status }),
  };
  if (verdict.done) {
    count("delivered");
    return log.info(facts, "alert posted to a webhook");
  }
  if (!verdict.again) {
    count("refused");
    log.error(facts, "a webhook refused an alert; it is not posted again");
    return message.dead("the receiver refused it");
  }
  if (clock.now() - message.storedAt > EXPIRY_MS) {
    count("expired");
    log.error(facts, "a webhook did not accept an alert for a day; it is not posted again");
    return message.dead("the receiver was unavailable for too long");
  }
  count("retried");
  const pauseMs = Math.max(verdict.afterMs, pauseOf(attempt));
  // One warning for each alert: a receiver may be down for hours.
  log[attempt === 1 ? "warn" : "debug"]({ ...facts, pause_ms: pauseMs }, "an alert could not be posted yet");
  message.giveBack(pauseMs);
}

const FAILED_POST = { done: false, again: true, afterMs: 0 } as const;

/** Grows with every attempt. Random, so that a receiver does not get all alerts at once when it is back. */
function pauseOf(attempt: number): number {
  const maxMs = Math.min(PAUSE_MS.first * 2 ** Math.min(attempt - 1, 20), PAUSE_MS.last);
  return Math.round(maxMs * (0.5 + Math.random() / 2));
}

function read({ body, subject, seq }: DurableMessage, log: Logger): ReceivedAlert | null {
  try {
    if (body.length > LIMITS.alert_bytes_max) throw new RangeError("the alert is too large");
    return readAlert(decodeBody(body, CONTENT_TYPES.json));
  } catch (error) {
    log.error({ error, subject, seq }, "message is not an alert");
    return null;
  }
}

function send(
  { url, secret }: Webhook,
  alert: ReceivedAlert,
  nowMs: number,
  signal: AbortSignal,
): Promise<Reply | PostFailure> {
  const body = webhookBody(alert);
  const timestamp = Math.floor(nowMs / 1_000);
  const headers = {
    "content-type": CONTENT_TYPES.json,
    "webhook-id": alert.id,
    "webhook-timestamp": String(timestamp),
    ...(secret !== null && { "webhook-signature": signatureOf(secret, { id: alert.id, timestamp, body }) }),
  };
  return post({ url, headers, body, timeoutMs: ANSWER_MS, signal });
}
