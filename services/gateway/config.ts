/** The settings of the gateway. */
import { gatewayKeysField } from "../../shared/bus/api-keys.ts";
import { tlsFields } from "../../shared/bus/tls-settings.ts";
import { type ConfigOf, integer, optional, orOff, text } from "../../shared/runtime/settings/config.ts";
import { opsPortField, processFields } from "../../shared/runtime/settings/process-settings.ts";

export const GATEWAY_PORT = 4284;

/** Shared with the standalone fleet, which runs a gateway too. */
export const gatewayFields = {
  gatewayHost: text("FLEET_GATEWAY_HOST", {
    default: "127.0.0.1",
    description: "Address of the HTTP API; beyond loopback only with TLS",
  }),
  gatewayPort: orOff(
    integer("FLEET_GATEWAY_PORT", {
      default: GATEWAY_PORT,
      min: -1,
      max: 65_535,
      description: "Port of the HTTP API; -1 takes any free one",
    }),
  ),
  gatewayCert: optional(
    text("FLEET_GATEWAY_CERT", {
      description: "Certificate of the HTTP API, with the certificates between (PEM)",
    }),
  ),
  gatewayKey: optional(text("FLEET_GATEWAY_KEY", { description: "Key of that certificate (PEM)" })),
  gatewayRate: integer("FLEET_GATEWAY_RATE", {
    default: 5_000,
    min: 1,
    max: 1_000_000,
    description: "Requests per second that one caller of the HTTP API may send; twice as many at once",
  }),
} as const;

export type GatewaySettings = ConfigOf<typeof gatewayFields>;

export const gatewayProcessFields = {
  logLevel: processFields.logLevel,
  opsHost: processFields.opsHost,
  opsPort: opsPortField(4285),
  otlpEndpoint: processFields.otlpEndpoint,
  stopTimeout: processFields.stopTimeout,
  ...gatewayFields,
  gatewayKeys: gatewayKeysField,
  ...tlsFields,
} as const;
