import fc from "fast-check";
import { expect, it } from "vitest";
import type { Store, Tx } from "../../../shared/store/store.ts";
import type { Bench } from "./bench.ts";
import { i64, i64Of, listing, look, type Space, testSpace, text, write } from "./space.ts";

const ACCOUNTS = 5;
const account = (space: Space, n: number) => space.key(`account/${n}`);

export function propertyCases({ store }: Bench): void {
  it("conserves the total over concurrent transfers, for every reader", async () => {
    const transfer = fc.record({
      from: fc.nat(ACCOUNTS - 1),
      to: fc.nat(ACCOUNTS - 1),
      amount: fc.integer({ min: 1, max: 60 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(transfer, { minLength: 5, maxLength: 25 }), async (transfers) => {
        const space = testSpace();
        await write(store(), async (tx) => {
          for (let n = 0; n < ACCOUNTS; n++) tx.set(account(space, n), i64(100n));
        });
        const totals: bigint[] = [];
        const watch = async () => totals.push(await total(store(), space));
        await Promise.all(transfers.flatMap((one) => [write(store(), move(space, one)), watch()]));
        await watch();
        expect(new Set(totals)).toEqual(new Set([500n]));
      }),
      { numRuns: 8 },
    );
  });

  it("numbers concurrent appends without a gap", async () => {
    const space = testSpace();
    const append = () =>
      write(store(), async (tx) => {
        const { rows } = await tx.getRange(space.range(), { limit: 1, reverse: true });
        const next = rows[0] === undefined ? 0 : Number(space.name(rows[0].key)) + 1;
        tx.set(space.key(String(next).padStart(4, "0")), text("x"));
      });
    await Promise.all(Array.from({ length: 25 }, append));
    const names = await look(store(), (reader) => listing(reader, space, space.range()));
    expect(names).toEqual(Array.from({ length: 25 }, (_, n) => `${String(n).padStart(4, "0")}=x`));
  });

  it("reads the same within a transaction as after its commit", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 12 }),
        fc.array(step, { maxLength: 12 }),
        async (one, two) => {
          const space = testSpace();
          await write(store(), async (tx) => applyAll(one, tx, space));
          const { value } = await write(store(), async (tx) => {
            applyAll(two, tx, space);
            const forward = await listing(tx, space, space.range());
            expect(await listing(tx, space, space.range(), { reverse: true })).toEqual(forward.toReversed());
            expect(await listing(tx, space, space.range(), { limit: 2 })).toEqual(forward.slice(0, 2));
            return forward;
          });
          expect(await look(store(), (reader) => listing(reader, space, space.range()))).toEqual(value);
        },
      ),
      { numRuns: 40 },
    );
  });
}

interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly amount: number;
}

const move =
  (space: Space, { from, to, amount }: Transfer) =>
  async (tx: Tx) => {
    const [source, target] = [account(space, from), account(space, to)];
    const balance = i64Of(await tx.get(source))!;
    if (from === to || balance < BigInt(amount)) return;
    tx.set(source, i64(balance - BigInt(amount)));
    tx.set(target, i64(i64Of(await tx.get(target))! + BigInt(amount)));
  };

async function total(store: Store, space: Space): Promise<bigint> {
  const { rows } = await look(store, (reader) => reader.getRange(space.range(), { limit: ACCOUNTS }));
  return rows.reduce((sum, { value }) => sum + i64Of(value)!, 0n);
}

type Step = (tx: Tx, space: Space) => void;

function applyAll(steps: readonly Step[], tx: Tx, space: Space): void {
  for (const step of steps) step(tx, space);
}

const counter = fc.constantFrom("m", "n");
const name = fc.oneof(fc.constantFrom("a", "b", "o", "p"), counter);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(name, fc.nat(99)).map(
    ([key, n]) =>
      (tx: Tx, space: Space) =>
        tx.set(space.key(key), text(String(n))),
  ),
  name.map((key) => (tx: Tx, space: Space) => tx.clear(space.key(key))),
  fc.tuple(name, name).map(([from, to]) => (tx: Tx, space: Space) => {
    if (from <= to) tx.clearRange(space.range(from, to));
  }),
  fc.tuple(counter, fc.nat(99)).map(
    ([key, n]) =>
      (tx: Tx, space: Space) =>
        tx.addI64(space.key(key), BigInt(n)),
  ),
  fc.tuple(counter, fc.nat(99)).map(([key, n]) => (tx: Tx, space: Space) => {
    tx.byteMax(space.key(key), text(String(n)));
  }),
);
