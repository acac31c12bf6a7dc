/** Damage to the stored bytes of a checkpoint, below all services. */
import { setTimeout as sleep } from "node:timers/promises";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { Store } from "../../../shared/store/store.ts";
import { instant } from "../../fleet/faults/agents/history.ts";
import { damagedRow, putDamaged, versionOf } from "../../fleet/faults/workers/store-damage.ts";
import type { WorldHost } from "./host.ts";
import { readableStore } from "./protection.ts";

const TRANSACT = { label: "damage", deadlineMs: 10_000, onUnknown: "safe" } as const;
const RETRY_MS = 50;

interface Alteration {
  readonly before: Uint8Array;
  readonly after: Uint8Array;
}

const isEqual = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;

/**
 * Resolves with false when the checkpoint does not exist. The store may be down or lose the result, so that the damage is made until it is
 * seen. It is recorded with the time before it, and only then, because the verdict expects its effects.
 */
export async function damageCheckpoint(
  host: Pick<WorldHost, "database" | "broken" | "history" | "protection">,
  task: string,
  id: string,
): Promise<boolean> {
  const { broken, history } = host;
  const begin = { at: instant(), wall: Date.now() };
  const engine = await host.database.open();
  let store: Store | undefined;
  const key = tenantKeys(DEFAULT_TENANT).checkpoint(task, id);
  let made: Alteration | undefined;
  const once = async () => {
    store ??= (await readableStore(engine, host.protection)).store;
    return store.transact(TRANSACT, async (tx) => {
      const row = await tx.get(key);
      if (row === undefined) return null;
      if (made !== undefined && isEqual(row, made.after)) return versionOf(made.before);
      if (made === undefined || !isEqual(row, made.before))
        made = { before: row, after: damagedRow(row, { broken, random: Math.random }) };
      await putDamaged(tx, { task, id }, { row: made.after, broken });
      return versionOf(row);
    });
  };
  for (;;) {
    const done = await once().catch(() => undefined);
    if (done === undefined) {
      await sleep(RETRY_MS);
      continue;
    }
    await engine.close({ drainMs: 0 });
    if (done.value === null) return false;
    const of = { task, checkpoint_id: id, version: done.value };
    await history.append({ line: "damage", ...begin, ...of });
    return true;
  }
}
