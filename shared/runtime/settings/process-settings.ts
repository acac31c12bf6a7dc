/** Settings that every process which runs for long has. */

import { logLevels } from "../observability/log.ts";
import { duration, integer, oneOf, optional, text, url } from "./config.ts";

export const processFields = {
  logLevel: oneOf("FLEET_LOG_LEVEL", logLevels, {
    default: "info",
    description: "Least important log level",
  }),
  opsHost: text("FLEET_OPS_HOST", {
    default: "127.0.0.1",
    description: "Address of /metrics, /healthz and /readyz",
  }),
  opsPort: integer("FLEET_OPS_PORT", {
    default: 4280,
    min: 0,
    max: 65_535,
    description: "Port of /metrics, /healthz and /readyz; 0 takes any free one",
  }),
  otlpEndpoint: optional(
    url("OTEL_EXPORTER_OTLP_ENDPOINT", {
      description: "Collector for traces (OTLP over HTTP); unset: no tracing",
    }),
  ),
  stopTimeout: duration("FLEET_STOP_TIMEOUT", {
    default: "10s",
    min: 1_000,
    description: "Time for work under way when a service is stopped",
  }),
} as const;
