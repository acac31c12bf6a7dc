/** The settings file of the bucket for anchors of the audit log: its place and credentials, and how long it locks an object. */
import { z } from "zod";
import { LIMITS } from "./limits.ts";

const isAddress = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash, pathname } = new URL(text);
  return (
    /^https?:$/.test(protocol) &&
    `${username}${password}${search}${hash}` === "" &&
    /^\/[^/]+$/.test(pathname)
  );
};

export const bucketSettingsSchema = z.strictObject({
  /** With the bucket as its path: https://s3.eu-central-1.amazonaws.com/fleet-anchors. */
  url: z.string().refine(isAddress, "an http or https URL whose path is the bucket"),
  /** Precedes the names of the objects. */
  prefix: z
    .string()
    .regex(/^([A-Za-z0-9_.-]+\/)*$/, "folders, each with a / at its end")
    .default(""),
  region: z.string().min(1).default("us-east-1"),
  access_key_id: z.string().min(1),
  secret_access_key: z.string().min(1),
  session_token: z.string().min(1).optional(),
  /** Six years by default, as HIPAA demands for documentation. */
  retain_days: z.int().min(1).max(LIMITS.anchor_retain_days_max).default(LIMITS.anchor_retain_days_default),
});
export type BucketSettings = z.output<typeof bucketSettingsSchema>;
