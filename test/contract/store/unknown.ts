// The command pattern under lost commit results: the body reads and writes an idempotency record, so it may
// run twice.

import { expect, it } from "vitest";
import type { Store, Tx } from "../../../shared/store/store.ts";
import { type Fault, faultyStore } from "../../harness/stores/faulty-store.ts";
import type { Bench } from "./bench.ts";
import { i64Of, look, type Space, testSpace, text, write } from "./space.ts";

/** One command: the first application adds 1 and appends one entry; further ones do nothing. */
const command = (space: Space, id: string) => async (tx: Tx) => {
  const record = space.key(`idem/${id}`);
  if ((await tx.get(record)) !== undefined) return "again";
  tx.set(record, text("done"));
  tx.addI64(space.key("count"), 1n);
  tx.setStampedKey(space.key("feed/"), text(id), text(id));
  return "first";
};

/** The count, and the number of entries in the feed. */
async function effects(store: Store, space: Space): Promise<[bigint, number]> {
  return await look(store, async (reader) => [
    i64Of(await reader.get(space.key("count"))) ?? 0n,
    (await reader.getRange(space.range("feed/", "feed0"), { limit: 1_000 })).rows.length,
  ]);
}

export function unknownCases({ store }: Bench): void {
  it.each<[Fault, string]>([
    ["applied", "again"],
    ["lost", "first"],
  ])("ends as once when the result is lost and the commit was %s", async (fault, answer) => {
    const space = testSpace();
    const faults: Fault[] = [fault, fault, "none"];
    const faulty = faultyStore(store(), () => faults.shift() ?? "none");
    const { value } = await write(faulty, command(space, "one"));
    expect(value).toBe(answer);
    expect(faulty.faults).toBe(2);
    expect(await effects(store(), space)).toEqual([1n, 1]);
  });

  it("takes effect once when the first commit arrives after the second attempt", async () => {
    const space = testSpace();
    const faults: Fault[] = ["late", "none"];
    const faulty = faultyStore(store(), () => faults.shift() ?? "none");
    expect((await write(faulty, command(space, "one"))).value).toBe("first");
    expect(await faulty.settle()).toBe(0);
    expect(await effects(store(), space)).toEqual([1n, 1]);
  });

  it.each<Fault>(["applied", "lost"])("throws commit_unknown to an unsafe caller (%s)", async (fault) => {
    const space = testSpace();
    const faulty = faultyStore(store(), () => fault);
    const options = { label: "contract", deadlineMs: 20_000, onUnknown: "unsafe" } as const;
    const run = faulty.transact(options, command(space, "one"));
    await expect(run).rejects.toMatchObject({ kind: "commit_unknown", retryable: false });
    expect(await effects(store(), space)).toEqual(fault === "applied" ? [1n, 1] : [0n, 0]);
  });

  it("many commands, each delivered twice at the same time under lost results, take effect once", async () => {
    const space = testSpace();
    const cycle: Fault[] = ["none", "applied", "late", "lost", "none", "lost", "applied"];
    let turn = 0;
    const faulty = faultyStore(store(), () => cycle[turn++ % cycle.length]!);
    const ids = Array.from({ length: 10 }, (_, n) => `c${n}`);
    await Promise.all([...ids, ...ids].map((id) => write(faulty, command(space, id))));
    await faulty.settle();
    expect(faulty.faults).toBeGreaterThan(10);
    expect(await effects(store(), space)).toEqual([10n, 10]);
  });
}
