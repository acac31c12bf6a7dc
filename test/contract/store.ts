// The contract of every store driver. The test file of a driver calls this with a function that opens it, and
// adds the cases of that engine alone (crashes, locks, full disks).

import { afterAll, beforeAll, describe } from "vitest";
import type { Store } from "../../shared/store/store.ts";
import type { Abilities, Bench } from "./store/bench.ts";
import { changeCases } from "./store/changes.ts";
import { endingCases } from "./store/endings.ts";
import { isolationCases } from "./store/isolation.ts";
import { limitCases } from "./store/limits.ts";
import { ownWriteCases } from "./store/own-writes.ts";
import { propertyCases } from "./store/properties.ts";
import { rangeCases } from "./store/ranges.ts";
import { stampCases } from "./store/stamps.ts";
import { unknownCases } from "./store/unknown.ts";

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
