/** The rotation of the keys of encryption at rest. What is encrypted, and with what, is in the answers to `diagnose`. */
import { z } from "zod";

export const encryptionRotationSchema = z.looseObject({
  /** The number of the rotation, counted from 1 over all of the store. */
  rotation: z.int().min(1),
  requested_at: z.string(),
});
export type EncryptionRotation = z.infer<typeof encryptionRotationSchema>;
