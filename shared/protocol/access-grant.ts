/** The register of issued credentials: what was granted to which principal, and what was revoked. */
import { z } from "zod";
import { CLIENT_ROLES, SERVICE_ROLES } from "./permissions.ts";

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

export const grantLineSchema = z.union([
  z.strictObject({ issued: grantRecordSchema }),
  z.strictObject({ revoked: z.strictObject({ id: grantRecordSchema.shape.id, at: z.iso.datetime() }) }),
]);
export type GrantLine = z.infer<typeof grantLineSchema>;
