/** The hash of stored bytes, part by part, so that no more than one part is in memory. */
import { createHash } from "node:crypto";
import { partSize, partsOf } from "../protocol/artifacts.ts";
import type { ArtifactStore, UploadPlace } from "./artifact-store.ts";

/** The missing or damaged part, or the hash of all parts. */
export type ContentHash = { readonly part: number } | { readonly sha256: string };

/** `before` runs before each part with its size; it may wait or throw. */
export async function contentHash(
  store: Pick<ArtifactStore, "get">,
  { size, ...place }: UploadPlace & { readonly size: number },
  before: (bytes: number) => Promise<void> = async () => {},
): Promise<ContentHash> {
  const hash = createHash("sha256");
  for (let part = 0; part < partsOf(size); part += 1) {
    await before(partSize(size, part));
    const bytes = await store.get(place, part);
    if (bytes?.length !== partSize(size, part)) return { part };
    hash.update(bytes);
  }
  return { sha256: hash.digest("hex") };
}
