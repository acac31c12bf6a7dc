// `fleet doctor` on a bus of three servers: one is killed, and one acknowledges before it syncs to disk.

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { CheckCode } from "../../../services/cli/commands/doctor/check-outcome.ts";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { type NatsCluster, prepareCluster } from "../../shared/bus/nats-cluster.ts";
import { BRIEF, checksOf, examine } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const TEST_MS = 120_000;
const SOON = { timeout: 90_000, interval: 500 };
const SERVERS = [0, 1, 2] as const;
const machine = prepareMachine();

let cluster: NatsCluster;
let reader: TestService;

const settings = () => ({
  ...environmentOf({
    busUrl: SERVERS.map((index) => cluster.url(index)).join(","),
    storeUrl: `lmdb:${machine.folder}/store?shared`,
  }),
  FLEET_NATS_MONITOR_URL: SERVERS.map((index) => cluster.monitorUrl(index)).join(", "),
});
async function lines(code: CheckCode): Promise<string[]> {
  const report = await examine(machine.forBus(settings().FLEET_URL), BRIEF);
  return checksOf(report, code).map(({ state, found }) => `${state} ${found}`);
}

beforeAll(async () => {
  cluster = await prepareCluster(SERVERS.length, 64 * 2 ** 30);
  for (const index of SERVERS) cluster.start(index, SERVERS.length);
  // A cluster takes streams when its servers have elected a leader.
  reader = await vi.waitFor(() => startService("reader", settings()), SOON);
}, TEST_MS);
afterAll(async () => {
  await reader?.kill9();
  await cluster?.stop();
});

test(
  "each server with a monitoring address is examined, not only the connected one",
  async () => {
    await expect
      .poll(() => lines("bus.sync"), SOON)
      .toEqual(["ok server-0, server-1, server-2 syncs to disk before it acknowledges"]);
  },
  TEST_MS,
);

test(
  "a killed server is named by the streams that miss its copy, and its sync policy is not known",
  async () => {
    await expect.poll(() => lines("bus.replicas"), SOON).toEqual(["ok 3 copies of each stream, all current"]);
    await cluster.kill9(2);
    await expect
      .poll(() => lines("bus.replicas"), SOON)
      .toContainEqual(
        expect.stringMatching(/^warning FLEET_\w+: server-2 is (offline|\d+ messages? behind)/),
      );
    await expect
      .poll(() => lines("bus.sync"), SOON)
      .toEqual([
        `not_checked the sync policy of server-2 is not known: no server of the bus answers at ${cluster.monitorUrl(2)}`,
      ]);
  },
  TEST_MS,
);

test(
  "a server that acknowledges before it syncs is a failure, also if no service is connected to it, and stops the start of services",
  async () => {
    cluster.start(2, SERVERS.length, { syncAlways: false });
    await expect
      .poll(() => lines("bus.sync"), SOON)
      .toEqual(["failed server-2 acknowledges before it syncs to disk"]);
    // It connects to a server that syncs.
    const refused = startService("reader", { ...settings(), FLEET_URL: cluster.url(0) });
    await expect(refused).rejects.toThrow(/ended with 78:[\s\S]*servers=\["server-2"\]/);
  },
  TEST_MS,
);
