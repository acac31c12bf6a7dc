/**
 * The holder of a credentials file, so that a program need not name its agent and tenant a second time. Only the
 * server verifies credentials; a wrong name here is refused there.
 */
import { readFileSync } from "node:fs";
import { userClaimsOf } from "./credentials-file.ts";

export interface CredentialsHolder {
  readonly tenant: string;
  /** The token of the principal. */
  readonly name: string;
}

const TENANT_TAG = "tenant:";

/** undefined: the file cannot be read, or another program than Fleet issued it. */
export function readCredentialsHolder(path: string): CredentialsHolder | undefined {
  try {
    const claims = userClaimsOf(readFileSync(path, "utf8"))?.split(".")[1] ?? "";
    const { name, nats } = JSON.parse(Buffer.from(claims, "base64url").toString()) as {
      readonly name?: unknown;
      readonly nats?: { readonly tags?: readonly unknown[] };
    };
    const tag = nats?.tags?.find((one) => typeof one === "string" && one.startsWith(TENANT_TAG));
    if (typeof name !== "string" || typeof tag !== "string") return undefined;
    return { tenant: tag.slice(TENANT_TAG.length), name };
  } catch {
    return undefined;
  }
}
