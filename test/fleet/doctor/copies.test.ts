// `fleet doctor` on a bus of three servers, one of which is killed.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { environmentOf, startService, type TestService } from "../../harness/processes/services.ts";
import { type NatsCluster, prepareCluster } from "../../shared/bus/nats-cluster.ts";
import { BRIEF, checksOf, examine } from "./examination.ts";

const TEST_MS = 120_000;
const SOON = { timeout: 90_000, interval: 500 };
const folder = mkdtempSync(join(tmpdir(), "fleet-doctor-"));

let cluster: NatsCluster;
let reader: TestService;

const copies = async () => {
  const url = [0, 1, 2].map((index) => cluster.url(index)).join(",");
  return checksOf(
    await examine({ FLEET_URL: url, FLEET_HOME: join(folder, "none"), XDG_STATE_HOME: folder }, BRIEF),
    "bus.replicas",
  );
};

beforeAll(async () => {
  cluster = await prepareCluster(3, 64 * 2 ** 30);
  for (const index of [0, 1, 2]) cluster.start(index, 3);
  const busUrl = [0, 1, 2].map((index) => cluster.url(index)).join(",");
  const env = environmentOf({ busUrl, storeUrl: `lmdb:${folder}/store?shared` });
  // A cluster takes streams when its servers have elected a leader.
  reader = await vi.waitFor(() => startService("reader", env), SOON);
}, TEST_MS);
afterAll(async () => {
  await reader?.kill9();
  await cluster?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test(
  "a killed server is named by the streams that miss its copy",
  async () => {
    await expect
      .poll(copies, SOON)
      .toMatchObject([{ state: "ok", found: "3 copies of each stream, all current" }]);
    await cluster.kill9(2);
    await expect
      .poll(async () => (await copies()).map(({ state, found }) => `${state} ${found}`), SOON)
      .toContainEqual(
        expect.stringMatching(/^warning FLEET_\w+: server-2 is (offline|\d+ messages? behind)/),
      );
  },
  TEST_MS,
);
