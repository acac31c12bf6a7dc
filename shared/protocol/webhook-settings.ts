/** The settings file of webhooks: the addresses, and the alerts that each one receives. */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { SEVERITIES } from "./severity.ts";

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const SECRET_EXPECTED = "whsec_ and 24 to 64 bytes in base64, as `openssl rand -base64 32` prints them";

/**
 * The key in a secret of the form that the Standard Webhooks specification defines; undefined for any other
 * text.
 */
export function webhookKey(secret: string): Uint8Array | undefined {
  const encoded = SECRET.exec(secret)?.[1];
  if (encoded === undefined || encoded.length % 4 !== 0) return undefined;
  const key = Buffer.from(encoded, "base64");
  return key.length >= 24 && key.length <= 64 ? key : undefined;
}

export const webhookSecretSchema = z
  .string()
  .refine((secret) => webhookKey(secret) !== undefined, SECRET_EXPECTED);

/**
 * An address with a user name or a password is refused, because it would leak wherever the address is
 * repeated.
 */
const isAddress = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "";
};

export const webhookSchema = z
  .strictObject({
    /**
     * The name in logs, in metrics and of its consumer. Default: its host and a part of the hash of its URL.
     */
    name: tokenSchema.optional(),
    url: z.string().refine(isAddress, "an http or https URL without a user name"),
    /** The signing secret. Absent: posts are not signed. */
    secret: webhookSecretSchema.optional(),
    /** A file with the secret. A relative path starts from the folder of the settings file. */
    secret_file: z.string().min(1).optional(),
    severities: z
      .array(z.enum(SEVERITIES, { error: `one of ${SEVERITIES.join(", ")}` }))
      .min(1)
      .optional(),
    tenants: z.array(tokenSchema).min(1).max(LIMITS.webhook_tenants_count_max).optional(),
  })
  .refine(({ secret, secret_file }) => secret === undefined || secret_file === undefined, {
    path: ["secret_file"],
    error: "either secret or secret_file",
  });

export const webhooksSchema = z.array(webhookSchema).max(LIMITS.webhooks_count_max);

export type WebhookSettings = z.output<typeof webhookSchema>;
