/**
 * The webhooks of a fleet, from their file. It is read once, at the start, and any problem in it stops the
 * process. No message repeats a secret.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { type FieldProblem, FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Severity } from "../../../shared/protocol/severity.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import {
  type WebhookSettings,
  webhookSecretSchema,
  webhooksSchema,
} from "../../../shared/protocol/webhook-settings.ts";
import { ConfigError, type ConfigProblem, optional, text } from "../../../shared/runtime/settings/config.ts";
import { inFile, readSettingsFile, unreadable } from "../../../shared/service-host/settings-file.ts";

const NAME = "FLEET_WEBHOOKS";
/** A wrong address may be a secret like a right one: any client that knows it can post there. */
const SECRET_FIELD = /(^|\.)(secret|url)$/;

export const webhookFields = {
  webhooksFile: optional(
    text(NAME, {
      description: "File with the webhooks that receive alerts, as in services/watchdog/README.md; JSON",
    }),
  ),
} as const;

export interface Webhook {
  /** A unique name. */
  readonly name: string;
  readonly url: string;
  /** `whsec_…`; null: posts are not signed. */
  readonly secret: string | null;
  /** null: all severities. */
  readonly severities: readonly Severity[] | null;
  /** null: all tenants. */
  readonly tenants: readonly string[] | null;
}

/** Throws ConfigError. */
export function readWebhooks(path: string | undefined): readonly Webhook[] {
  if (path === undefined) return [];
  const file = { name: NAME, path, secret: SECRET_FIELD };
  const settings = readSettingsFile(file, webhooksSchema);
  const problems: ConfigProblem[] = [];
  const webhooks = settings.map((one, i): Webhook => {
    const { secret, problem } = secretOf(one, dirname(path));
    if (problem !== undefined) problems.push(inFile(file, { ...problem, path: `${i}.secret_file` }));
    const { url, severities, tenants } = one;
    return {
      name: one.name ?? nameOf(url),
      url,
      secret,
      severities: severities === undefined ? null : [...new Set(severities)],
      tenants: tenants === undefined ? null : [...new Set(tenants)],
    };
  });
  for (const [i, { name }] of webhooks.entries()) {
    const first = webhooks.findIndex((other) => other.name === name);
    if (first === i) continue;
    const expected = `another name than that of ${first}: the name identifies the webhook's position in the stream`;
    problems.push(inFile(file, { path: `${i}.name`, expected, got: name }));
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return webhooks;
}

interface FoundSecret {
  readonly secret: string | null;
  readonly problem?: Omit<FieldProblem, "path">;
}

function secretOf({ secret, secret_file: file }: WebhookSettings, folder: string): FoundSecret {
  if (file === undefined) return { secret: secret ?? null };
  const path = resolve(folder, file);
  try {
    return { secret: validate(webhookSecretSchema, readFileSync(path, "utf8").trim()) };
  } catch (error) {
    const problem =
      error instanceof FleetError
        ? { expected: error.fields[0]?.expected ?? "a secret", got: `something else in ${path}` }
        : unreadable(path, error);
    return { secret: null, problem };
  }
}

/** Made from the host only: the path of a webhook is often its only secret. */
function nameOf(url: string): string {
  const host = new URL(url).hostname.replace(/[^A-Za-z0-9_-]/g, "-");
  const hash = createHash("sha256").update(url).digest("hex").slice(0, 8);
  return `${host.slice(0, LIMITS.id_chars_max - hash.length - 1)}-${hash}`;
}
