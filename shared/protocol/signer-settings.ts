/** The settings file of the signing service and the gateway: the issuers whose tokens they accept, and who their holders are in the fleet. */
import { z } from "zod";
import { tokenSchema } from "./ids.ts";
import { CLIENT_ROLES, type ClientRole } from "./roles.ts";

/** With a shared secret, every party that can verify a token could make one. */
export const TOKEN_ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"] as const;

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Keys that arrive in clear text could be replaced on the way. */
const isKeysUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, username, password } = new URL(text);
  if (username !== "" || password !== "") return false;
  return protocol === "https:" || (protocol === "http:" && LOOPBACK.has(hostname));
};

export const keysUrlSchema = z
  .string()
  .refine(isKeysUrl, "an https URL, or http on loopback, without a user name");

export const tokenAlgorithmsSchema = z
  .array(z.enum(TOKEN_ALGORITHMS, { error: `one of ${TOKEN_ALGORITHMS.join(", ")}` }))
  .min(1)
  .default(["RS256", "ES256"]);

/** The path to a claim: a name, or the names from the outside to the inside. */
const claim = z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]);

/** A fixed value, or that of a claim, through a table of values if there is one. */
const sourceOf = <T extends string>(value: z.ZodType<T>) =>
  z.union([
    z.strictObject({ value }),
    z.strictObject({ claim, values: z.record(z.string(), value).optional() }),
  ]);

const role: z.ZodType<ClientRole> = z.enum(CLIENT_ROLES, { error: `one of ${CLIENT_ROLES.join(", ")}` });

const issuerFields = z.strictObject({
  /** The `iss` of its tokens, to the letter. */
  issuer: z.string().min(1),
  keys_url: keysUrlSchema,
  /** A file with a token for `keys_url`, such as that of the service's own account in Kubernetes. */
  keys_token_file: z.string().min(1).optional(),
  /** The `aud` that the tokens must have. */
  audience: z.string().min(1),
  algorithms: tokenAlgorithmsSchema,
  tenant: sourceOf(tokenSchema),
  name: sourceOf(tokenSchema),
  /** True: the name is that of a person. */
  person: z.boolean().default(false),
  role: sourceOf(role),
  /** The claim with the scopes of the HTTP API, a list or a text of words, each behind `prefix`. Absent: all that the role may do. */
  scopes: z.strictObject({ claim, prefix: z.string().default("") }).optional(),
  /** The roles that this issuer may give. */
  roles: z.array(role).min(1).default(["agent"]),
});

/** A role that the issuer may not give would refuse its holders, one by one. */
export const issuerSchema = issuerFields.superRefine(({ role: given, roles }, context) => {
  const named = "value" in given ? [given.value] : Object.values(given.values ?? {});
  for (const one of named.filter((name) => !roles.includes(name)))
    context.addIssue({ code: "custom", path: ["roles"], message: `also ${one}, which \`role\` gives` });
});

export const signerSettingsSchema = z.strictObject({
  issuers: z
    .array(issuerSchema)
    .refine((all) => new Set(all.map(({ issuer }) => issuer)).size === all.length, "each issuer once"),
});

export type IssuerSettings = z.output<typeof issuerSchema>;
export type ClaimSource = IssuerSettings["tenant"] | IssuerSettings["role"];
