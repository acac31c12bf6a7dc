// What every store driver must keep. A driver's own test file calls this with a way to open it, and adds what only that
// engine can show (crashes, locks, full disks).

import { afterAll, beforeAll, describe } from "vitest";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Store } from "../../shared/store/store.ts";
import { changeCases } from "./store/changes.ts";
import { endingCases } from "./store/endings.ts";
import { isolationCases } from "./store/isolation.ts";
import { limitCases } from "./store/limits.ts";
import { ownWriteCases } from "./store/own-writes.ts";
import { propertyCases } from "./store/properties.ts";
import { rangeCases } from "./store/ranges.ts";
import { stampCases } from "./store/stamps.ts";
import { unknownCases } from "./store/unknown.ts";

export interface Abilities {
  /** Opens a store that measures the age of transactions by `clock`. Without it the case waits for real. */
  readonly openWithClock?: (clock: Clock) => Promise<Store>;
}

/** What a case works with. */
export interface Bench {
  /** Shared by all cases of a file; each uses keys of its own, from `testSpace`. */
  readonly store: () => Store;
  /** Another one, to be closed by the case. May have the same content. */
  readonly open: () => Promise<Store>;
  readonly can: Abilities;
}

export function storeContract(name: string, open: () => Promise<Store>, can: Abilities = {}): void {
  describe(`store contract: ${name}`, () => {
    let store: Store;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(async () => {
      await store.close({ drainMs: 1_000 });
    });
    const bench: Bench = { store: () => store, open, can };
    describe("isolation", () => isolationCases(bench));
    describe("own writes", () => ownWriteCases(bench));
    describe("ranges", () => rangeCases(bench));
    describe("limits", () => limitCases(bench));
    describe("stamps", () => stampCases(bench));
    describe("endings", () => endingCases(bench));
    describe("unknown results", () => unknownCases(bench));
    describe("changes", () => changeCases(bench));
    describe("properties", () => propertyCases(bench));
  });
}
