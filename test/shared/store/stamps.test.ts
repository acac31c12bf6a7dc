import fc from "fast-check";
import { expect, it } from "vitest";
import { commitStamp } from "../../../shared/store/optimistic/stamps.ts";
import { STAMP_BYTES } from "../../../shared/store/store.ts";

it("orders stamps like their commits", () => {
  const sequence = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
  fc.assert(
    fc.property(sequence, sequence, (a, b) => {
      expect(commitStamp(a)).toHaveLength(STAMP_BYTES);
      expect(Buffer.compare(commitStamp(a), commitStamp(b))).toBe(a < b ? -1 : a > b ? 1 : 0);
    }),
  );
});
