/** The settings of every long-running process. */

import { logLevels } from "../observability/log.ts";
import { duration, integer, oneOf, optional, text, url } from "./config.ts";

/** Each kind of process that may share a machine with others has its own default port. */
export const opsPortField = (port: number) =>
  integer("FLEET_OPS_PORT", {
    default: port,
    min: 0,
    max: 65_535,
    description: "Port of /metrics, /healthz and /readyz; 0 takes any free one",
  });

export const processFields = {
  logLevel: oneOf("FLEET_LOG_LEVEL", logLevels, {
    default: "info",
    description: "Least important level that is logged",
    defaultNote: "`info`; the standalone fleet on a terminal: `warn`",
  }),
  opsHost: text("FLEET_OPS_HOST", {
    default: "127.0.0.1",
    description: "Address of /metrics, /healthz and /readyz",
  }),
  opsPort: opsPortField(4280),
  otlpEndpoint: optional(
    url("OTEL_EXPORTER_OTLP_ENDPOINT", {
      description: "Collector for traces (OTLP over HTTP); unset: no tracing",
    }),
  ),
  stopTimeout: duration("FLEET_STOP_TIMEOUT", {
    default: "10s",
    min: 1_000,
    description: "Time for work in progress when the process stops",
  }),
} as const;
