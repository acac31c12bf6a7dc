// LangGraph's own validation suite for checkpoint savers, on a real writer, reader and store.

import * as vitest from "vitest";
import { FleetSaver } from "../../../../shared/sdk/langgraph/saver.ts";
import { startFleet, type TestFleet } from "../../../harness/processes/fleet.ts";

// The suite finds its test functions where other test programs put them.
Object.assign(globalThis, {
  describe: vitest.describe,
  it: vitest.it,
  test: vitest.test,
  expect: vitest.expect,
  beforeAll: vitest.beforeAll,
  afterAll: vitest.afterAll,
  beforeEach: vitest.beforeEach,
  afterEach: vitest.afterEach,
});
const { deltaChannelHistoryTests, specTest } = await import("@langchain/langgraph-checkpoint-validation");

let fleet: TestFleet;
let savers = 0;

vitest.beforeAll(async () => {
  fleet = await startFleet();
}, 60_000);
vitest.afterAll(() => fleet?.stop());

const initializer = {
  checkpointerName: "FleetSaver",
  /** Each saver is in a tenant of its own, because the suite lists all threads. */
  async createCheckpointer() {
    savers += 1;
    return new FleetSaver(await fleet.client("graph", `suite-${savers}`, { role: "orchestrator" }));
  },
};

specTest(initializer);
vitest.describe("delta channels", () => deltaChannelHistoryTests(initializer));
