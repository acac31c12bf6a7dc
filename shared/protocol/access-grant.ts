/** The register of issued credentials: what was granted to which principal, and what was revoked. */
import { z } from "zod";
import { digestSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { CLIENT_ROLES, SERVICE_ROLES } from "./roles.ts";

export const grantRecordSchema = z.strictObject({
  /** The public key of the credentials. */
  id: z.string().regex(/^U[A-Z2-7]{55}$/, "the public key of a user"),
  role: z.enum([...CLIENT_ROLES, ...SERVICE_ROLES]),
  tenant: z.string(),
  /** The token of the principal in subjects. */
  name: z.string(),
  issued_at: z.iso.datetime(),
  /** null: no end. */
  expires_at: z.iso.datetime().nullable(),
});
export type GrantRecord = z.infer<typeof grantRecordSchema>;

/** What was done with credentials, for the audit chain of their tenant. */
export const grantActSchema = z.strictObject({
  act: z.enum(["issue", "revoke"]),
  ...grantRecordSchema.pick({ id: true, role: true }).shape,
  name: z.string().regex(/^[A-Za-z0-9_=-]{1,80}$/, "the name of an agent, a person or a service"),
});
export type GrantAct = z.infer<typeof grantActSchema>;

/** Acts with credentials, for the audit chain of the tenant. */
export const accessRecordQuerySchema = z.looseObject({
  acts: z.array(grantActSchema).min(1).max(LIMITS.access_acts_count_max),
});

export const grantLineSchema = z.union([
  z.strictObject({
    issued: grantRecordSchema,
    /** Of an API key that opens only some operations of the HTTP API. A later version may have other scopes. */
    scopes: z.array(z.string()).min(1).optional(),
  }),
  z.strictObject({ revoked: z.strictObject({ id: grantRecordSchema.shape.id, at: z.iso.datetime() }) }),
  /** The first `acts` lines about credentials are in the audit chain. */
  z.strictObject({ recorded: z.strictObject({ acts: z.int().min(0) }) }),
]);
export type GrantLine = z.infer<typeof grantLineSchema>;

/** The table of rights of a version of Fleet, and since when it is in force. */
export const rightsLineSchema = z.strictObject({
  at: z.iso.datetime(),
  /** The SHA-256 of `operations` in JSON. */
  version: digestSchema,
  /** By role. A version may have other roles than this one. */
  operations: z.record(z.string(), z.array(z.string())),
});
export type RightsLine = z.infer<typeof rightsLineSchema>;
