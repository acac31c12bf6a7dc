/** Which alerts are posted where: the file of webhooks. */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { SEVERITIES } from "./severity.ts";

const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const SECRET_EXPECTED = "whsec_ and 24 to 64 bytes in base64, as `openssl rand -base64 32` prints them";

/** The key in a secret as the Standard Webhooks specification writes it; undefined for anything else. */
export function webhookKey(secret: string): Uint8Array | undefined {
  const encoded = SECRET.exec(secret)?.[1];
  if (encoded === undefined || encoded.length % 4 !== 0) return undefined;
  const key = Buffer.from(encoded, "base64");
  return key.length >= 24 && key.length <= 64 ? key : undefined;
}

export const webhookSecretSchema = z
  .string()
  .refine((secret) => webhookKey(secret) !== undefined, SECRET_EXPECTED);

/** A name or a password in it would be sent in the clear by whoever repeats the address. */
const isAddress = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "";
};

export const webhookSchema = z
  .strictObject({
    /** In logs, metrics and the place from which it goes on; else its host and a part of the hash of its URL. */
    name: tokenSchema.optional(),
    url: z.string().refine(isAddress, "an http or https URL without a user name"),
    /** Without one, what is posted is not signed. */
    secret: webhookSecretSchema.optional(),
    /** The same in a file; a relative path is meant from the folder of the settings. */
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
