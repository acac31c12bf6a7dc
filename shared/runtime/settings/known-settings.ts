// The names of all settings of all processes. They share one environment, so each process knows the names that
// only another one reads, and warns of a mistyped name, which would otherwise be ignored.

import type { Environment } from "./config.ts";
import { nearestName } from "./did-you-mean.ts";

/** Complete: a test compares it with deploy/SETTINGS.md. */
export const SETTING_NAMES: ReadonlySet<string> = new Set([
  "FLEET_AGENT_ID",
  "FLEET_AGENT_TYPE",
  "FLEET_AGENT_TYPES",
  "FLEET_ARTIFACTS",
  "FLEET_ARTIFACTS_BYTES",
  "FLEET_ARTIFACTS_GRACE",
  "FLEET_AUDIT_ANCHOR_BUCKET",
  "FLEET_AUDIT_ANCHOR_EVERY",
  "FLEET_AUDIT_ANCHOR_FOLDER",
  "FLEET_AUDIT_TSA_CA",
  "FLEET_AUDIT_TSA_URL",
  "FLEET_AUTH",
  "FLEET_CHECKPOINT",
  "FLEET_DISK_MIN_FREE",
  "FLEET_ENCRYPTION_KEY",
  "FLEET_ESIGN_ISSUERS",
  "FLEET_EXIT_FILE",
  "FLEET_FENCE",
  "FLEET_FINALIZE_DRAFTS_AFTER",
  "FLEET_GATEWAY_CERT",
  "FLEET_GATEWAY_HOST",
  "FLEET_GATEWAY_ISSUERS",
  "FLEET_GATEWAY_KEY",
  "FLEET_GATEWAY_CREDS",
  "FLEET_GATEWAY_KEYS",
  "FLEET_GATEWAY_PORT",
  "FLEET_GATEWAY_RATE",
  "FLEET_HANDOFF",
  "FLEET_HOME",
  "FLEET_HOOK_DIR",
  "FLEET_HOOK_MESSAGE",
  "FLEET_HOOK_WAIT",
  "FLEET_LOG_LEVEL",
  "FLEET_MCP_HTTP",
  "FLEET_MIRROR_DIR",
  "FLEET_MISSION_SILENCE",
  "FLEET_NATS_CA",
  "FLEET_NATS_CERT",
  "FLEET_NATS_CREDS",
  "FLEET_NATS_HOST",
  "FLEET_NATS_KEY",
  "FLEET_NATS_MONITOR_URL",
  "FLEET_NATS_PORT",
  "FLEET_NATS_SERVER",
  "FLEET_NATS_SERVER_CERT",
  "FLEET_NATS_SERVER_KEY",
  "FLEET_NATS_SERVER_NAME",
  "FLEET_NATS_SERVER_NAMES",
  "FLEET_NATS_TOKEN_FILE",
  "FLEET_OPS_HOST",
  "FLEET_OPS_PORT",
  "FLEET_PERSON",
  "FLEET_POLICY",
  "FLEET_PROMPT_FILE",
  "FLEET_RECOVERIES_MAX",
  "FLEET_REDACTION",
  "FLEET_RETENTION_EVERY",
  "FLEET_RUNNER_CONFIG",
  "FLEET_RUNNER_DIR",
  "FLEET_RUNNER_NAME",
  "FLEET_SCRUB_EVERY",
  "FLEET_SCRUB_RATE",
  "FLEET_SECRETS_FILE",
  "FLEET_SECRET_NAMES",
  "FLEET_SIGNER_CONFIG",
  "FLEET_SIGNER_KEYS",
  "FLEET_SIGNING_KEY",
  "FLEET_SPOOL_DIR",
  "FLEET_SPOOL_KEY",
  "FLEET_STOP_TIMEOUT",
  "FLEET_STORE",
  "FLEET_STREAM_REPLICAS",
  "FLEET_TASK",
  "FLEET_TENANT",
  "FLEET_THREADS",
  "FLEET_URL",
  "FLEET_WEBHOOKS",
]);

/** Variables with this prefix belong to the tests. */
const TEST_PREFIX = "FLEET_TEST_";

export interface UnknownSetting {
  readonly name: string;
  /** The known name that was probably meant; absent: none is similar. */
  readonly meant?: string;
}

/** The FLEET_ variables that no process reads. The values stay out: a mistyped name may carry a secret. */
export function unknownSettings(env: Environment): UnknownSetting[] {
  return Object.entries(env)
    .filter(([name, value]) => name.startsWith("FLEET_") && !name.startsWith(TEST_PREFIX) && value)
    .filter(([name, value]) => !SETTING_NAMES.has(name) && !isServiceLink(name, value ?? ""))
    .map(([name]) => {
      const meant = nearestName(name, SETTING_NAMES);
      return { name, ...(meant !== undefined && { meant }) };
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** A Service named fleet-… makes Kubernetes add such variables to every pod; no operator wrote them. */
const SERVICE_LINK = /_(SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)$/;

function isServiceLink(name: string, value: string): boolean {
  if (!SERVICE_LINK.test(name)) return false;
  return !name.endsWith("_PORT") || name.endsWith("_SERVICE_PORT") || /^(tcp|udp|sctp):\/\//.test(value);
}
