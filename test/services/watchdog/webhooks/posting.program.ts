/** Runs webhooks in a process that a test kills. */
import { readWebhooks } from "../../../../services/watchdog/webhooks/webhook-settings.ts";
import { startWebhooks } from "../../../../services/watchdog/webhooks/webhooks.ts";
import { connectBus } from "../../../../shared/bus/connection.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";

const log = createLogger({ service: "posting" });
const [url = "", file = ""] = process.argv.slice(2);
const identity = `posting-${process.pid}`;
const backgroundBus = await connectBus({ url, name: identity, identity, log });
const context = { backgroundBus, clock: systemClock, log, metrics: createMetrics({ ofProcess: false }) };
startWebhooks(context, readWebhooks(file));
