/**
 * Opens a store by its URL. A driver is loaded only when it is needed, because each brings a native library.
 */
import { type Store, StoreError } from "./store.ts";

const FORMS = ["lmdb:./directory", "lmdb:./directory?shared", "memory:", "fdb:/path/to/fdb.cluster"];

/**
 * Opens the store that `url` names. `fdb:` alone lets the client library find the cluster file; `?shared` is
 * for several processes of one machine.
 * @throws StoreError `invalid` for any other form (`details.accepted` lists them), `unavailable` when it
 *   cannot be opened.
 */
export async function openStore(url: string): Promise<Store> {
  const colon = url.indexOf(":");
  const scheme = url.slice(0, Math.max(colon, 0));
  const rest = url.slice(colon + 1);
  const [, path, shared] = /^([^?]+)(\?shared)?$/.exec(rest) ?? [];
  if (scheme === "lmdb" && path !== undefined) {
    const { openLmdb } = await import("./drivers/lmdb.ts");
    return await openLmdb({ path, sharing: shared === undefined ? "exclusive" : "shared" });
  }
  if (scheme === "memory" && rest === "") {
    const { openMemory } = await import("./drivers/memory.ts");
    return await openMemory();
  }
  if (scheme === "fdb") {
    const { openFoundationdb } = await import("./drivers/foundationdb.ts");
    return await openFoundationdb(rest === "" ? {} : { clusterFile: rest });
  }
  throw new StoreError("invalid", "store URL has an unknown form", { details: { url, accepted: FORMS } });
}
