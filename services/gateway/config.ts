/** The settings of the gateway. */
import { readFileSync } from "node:fs";
import { gatewayKeysField } from "../../shared/bus/api-keys.ts";
import { tlsFields } from "../../shared/bus/tls-settings.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { type IssuerSettings, signerSettingsSchema } from "../../shared/protocol/signer-settings.ts";
import { validate } from "../../shared/protocol/validation.ts";
import {
  ConfigError,
  type ConfigOf,
  type ConfigProblem,
  integer,
  optional,
  orOff,
  text,
} from "../../shared/runtime/settings/config.ts";
import { opsPortField, processFields } from "../../shared/runtime/settings/process-settings.ts";
import { withoutSchema } from "../../shared/runtime/settings/schema-member.ts";
import { redactionFields } from "../../shared/sdk/redaction/secret-settings.ts";

export const GATEWAY_PORT = 4284;
const ISSUERS = "FLEET_GATEWAY_ISSUERS";

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
      description:
        "Certificate of the HTTP API, with the certificates between (PEM); `auto` in a standalone fleet: that of its bus",
    }),
  ),
  gatewayKey: optional(text("FLEET_GATEWAY_KEY", { description: "Key of that certificate (PEM)" })),
  gatewayIssuers: optional(
    text(ISSUERS, {
      description:
        "File with the issuers whose tokens the HTTP API accepts, as in services/signer/README.md; JSON",
    }),
  ),
  gatewayRate: integer("FLEET_GATEWAY_RATE", {
    default: 5_000,
    min: 1,
    max: 1_000_000,
    description: "Requests per second that one caller of the HTTP API may send; twice as many at once",
  }),
  redaction: redactionFields.redaction,
  secretsFile: redactionFields.secretsFile,
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
  gatewayCreds: optional(
    text("FLEET_GATEWAY_CREDS", {
      description:
        "Credentials file of the gateway itself, of the observer `fleet-gateway` in the tenant `default`: it reports requests without valid credentials to the access log",
      defaultNote: "they are only in its own log",
    }),
  ),
  ...tlsFields,
} as const;

/** Throws ConfigError with all problems of the file. */
export function readIssuersFile(path: string): readonly IssuerSettings[] {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return validate(signerSettingsSchema, withoutSchema(value)).issuers;
  } catch (error) {
    throw new ConfigError(problemsOf(path, error));
  }
}

function problemsOf(path: string, error: unknown): ConfigProblem[] {
  if (error instanceof FleetError)
    return error.fields.map(({ path: field, expected, got = "something else" }) => ({
      name: `${ISSUERS}: ${field === "" ? path : field}`,
      expected,
      got,
    }));
  if (error instanceof SyntaxError)
    return [{ name: ISSUERS, expected: `JSON in ${path}`, got: error.message }];
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  return [{ name: ISSUERS, expected: "a file that can be read", got: `${path}: ${code}` }];
}
