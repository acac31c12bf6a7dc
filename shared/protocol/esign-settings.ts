/** The settings file of electronic signatures: the identity providers whose people may sign, and how they must authenticate. */
import { z } from "zod";
import { domainSchema } from "./esign-proof.ts";
import { DEFAULT_TENANT, tokenSchema } from "./ids.ts";
import { isOriginOf, LOCAL_PAGES } from "./passkey-origin.ts";
import { keysUrlSchema, tokenAlgorithmsSchema } from "./signer-settings.ts";

const passkeySettingsSchema = z
  .strictObject({
    /** The domain of the pages on which people sign: that of a page of your own, or `localhost` for `fleet sign`. */
    rp_id: domainSchema.default(LOCAL_PAGES),
    /** The origins of the pages of your own. Absent: `https://` and the domain. `localhost` has none: `fleet sign` uses any port. */
    origins: z.array(z.url()).min(1).exactOptional(),
  })
  .refine(
    ({ rp_id, origins }) => rp_id !== LOCAL_PAGES || origins === undefined,
    "no origins with `localhost`: the page of `fleet sign` has another port each time",
  )
  .refine(
    ({ rp_id, origins = [] }) => origins.every((origin) => isOriginOf(rp_id, origin)),
    "origins with https of the domain, or of one below it, without a path",
  );

const esignIssuerSchema = z.strictObject({
  /** The `iss` of its tokens, to the letter, below which its discovery document is. */
  issuer: z.url({ error: "the URL of the identity provider" }),
  keys_url: keysUrlSchema,
  /** A client of its own, for signatures only: the API must not accept its tokens from callers. */
  client_id: z.string().min(1),
  algorithms: tokenAlgorithmsSchema,
  scope: z.string().min(1).default("openid profile"),
  /** The claim with the name that is printed. */
  name_claim: z.string().min(1).default("name"),
  /** The claim that must have the name of the caller (`human=NAME`). Absent: any person may send the signature of the signer. */
  caller_claim: z.string().min(1).optional(),
  /** The tenants whose tasks its people may sign. */
  tenants: z.array(tokenSchema).min(1).default([DEFAULT_TENANT]),
  /** The token must have one of these as `acr`. */
  acr_values: z.array(z.string().min(1)).min(1).optional(),
  /** The token must have all of these in `amr`, such as `mfa`. */
  amr: z.array(z.string().min(1)).min(1).optional(),
  /** Its people may sign with passkeys that they enrol with a login. Absent: they log in for each signature. */
  passkeys: passkeySettingsSchema.exactOptional(),
});

export const esignSettingsSchema = z.strictObject({
  issuers: z
    .array(esignIssuerSchema)
    .min(1)
    .refine((all) => new Set(all.map(({ issuer }) => issuer)).size === all.length, "each issuer once"),
});

export type EsignIssuerSettings = z.output<typeof esignIssuerSchema>;
