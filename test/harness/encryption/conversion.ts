/** The conversion of a plain store, as the jobs of the watchdogs make it. */
import { stepConversion } from "../../../shared/records/encryption/jobs/conversion.ts";
import { stepIndex } from "../../../shared/records/search/indexer.ts";
import type { Store } from "../../../shared/store/store.ts";

const guard = async () => {};

export async function indexStore(store: Store): Promise<void> {
  while ((await stepIndex(store, guard)).more);
}

/** `engine`: the store without encryption. */
export async function convertStore(engine: Store, store: Store): Promise<void> {
  for (;;) {
    const { state } = await stepConversion({ engine, store, guard, nowMs: Date.now() });
    if (state === "complete") return;
    if (state === "waiting") await indexStore(store);
  }
}
