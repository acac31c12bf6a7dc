/** `fleet doctor` of a fleet on a real FoundationDB server, which is healthy, and then does not answer. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import {
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../../harness/stores/foundationdb.ts";
import { checksOf, examine, problemsOf } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const START_MS = 120_000;
const CALLS_MS = 200_000;
const SOON = { timeout: 60_000, interval: 250 };

const machine = prepareMachine();
const missing = await missingFoundationdb();

describe.skipIf(missing !== undefined)("a fleet on FoundationDB", () => {
  let server: FoundationdbServer;
  let fleet: TestFleet;

  const own = () => machine.forFleet(fleet);

  beforeAll(async () => {
    server = await startFoundationdb();
    fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_STORE: `fdb:${server.clusterFile}` });
  }, START_MS);
  afterAll(async () => {
    await server?.control?.continue();
    await fleet?.stop();
    await server?.stop();
  });

  test(
    "a healthy cluster is described, and a server that does not answer is found and named",
    async () => {
      const healthy = await examine(own());
      expect(problemsOf(healthy)).toEqual([]);
      expect(checksOf(healthy, "store.cluster")[0]?.found).toMatch(/^FoundationDB 7\.3\.\d+: \d+ process/);
      expect(checksOf(healthy, "encryption.store")).toHaveLength(1);
      if (server.control === undefined) return;
      await server.control.pause();
      await expect
        .poll(
          async () =>
            (await examine(own())).checks.filter((one) => one.state === "failed").map(({ code }) => code),
          SOON,
        )
        .toEqual(expect.arrayContaining(["store.health", "store.cluster"]));
      await server.control.continue();
      await expect.poll(async () => problemsOf(await examine(own())), SOON).toEqual([]);
    },
    CALLS_MS,
  );
});
