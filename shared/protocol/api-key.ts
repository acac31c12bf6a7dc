/** API keys of the gateway: their text, and the record that the gateway keeps of each. The record cannot be used without its key. */
import { z } from "zod";
import { digestSchema, principalSchema, tokenSchema } from "./ids.ts";
import { scopeSchema } from "./rest/scopes.ts";
import { CLIENT_ROLES } from "./roles.ts";

/** The last character of 256 bits has only four of them: each secret has one text. */
const FORM = /^fleet_([a-z2-7]{16})_([A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$/;

export interface ApiKeyParts {
  /** Names the record; no secret. */
  readonly id: string;
  /** 256 random bits in base64url. */
  readonly secret: string;
}

export const apiKeyText = ({ id, secret }: ApiKeyParts): string => `fleet_${id}_${secret}`;

/** undefined: the text is no API key. */
export function parseApiKey(text: string): ApiKeyParts | undefined {
  const [, id, secret] = FORM.exec(text) ?? [];
  return id === undefined || secret === undefined ? undefined : { id, secret };
}

export const isApiKeyId = (text: string): boolean => /^[a-z2-7]{16}$/.test(text);

const base64 = z.string().regex(/^[A-Za-z0-9_-]+$/, "base64url");

export const apiKeyRecordSchema = z.strictObject({
  id: z.string().refine(isApiKeyId, "the id of an API key"),
  tenant: tokenSchema,
  /** The token of the principal for which the key stands. */
  name: principalSchema,
  role: z.enum(CLIENT_ROLES),
  /** The operations of the HTTP API for which it is. null: all that the role may do. */
  scopes: z.array(scopeSchema).min(1).nullable().default(null),
  created_at: z.iso.datetime(),
  /** null: no end. */
  expires_at: z.iso.datetime().nullable(),
  /** The id of its credentials in the register of issued ones. null: the fleet's own user made them. */
  grant: z.string().nullable(),
  /** The account of the fleet that issued the credentials. null: a bus without credentials. */
  account: z.string().nullable(),
  /** The SHA-256 of the secret, which has 256 random bits. */
  digest: digestSchema,
  /** The credentials for the bus, encrypted with a key that follows from the secret. null: a bus without credentials. */
  sealed: z.strictObject({ salt: base64, nonce: base64, tag: base64, text: base64 }).nullable(),
});

export type ApiKeyRecord = z.output<typeof apiKeyRecordSchema>;
