/** What the signature of a commit states, for readers. It is not verified here. */
import type { Envelope } from "../../integrity/dsse.ts";

/** The time of the commit. null: the payload cannot be read. */
export function commitTimeIn({ payload }: Pick<Envelope, "payload">): string | null {
  try {
    const { at } = JSON.parse(Buffer.from(payload, "base64").toString()) as { readonly at?: unknown };
    return typeof at === "string" ? at : null;
  } catch {
    return null;
  }
}
