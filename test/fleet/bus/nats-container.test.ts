// The bus on the pinned image of NATS: it is proven durable, and its messages survive a kill of the container.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { missingContainers } from "../../harness/containers/loopback-container.ts";
import { type NatsContainer, startNatsContainer } from "../../harness/containers/nats-container.ts";
import { testLog } from "../../harness/processes/nats.ts";

const CONTAINERS_MS = 120_000;
const missing = await missingContainers();
if (missing !== undefined)
  process.stderr.write(`nats: not started from its image, because ${missing} answers\n`);

describe.skipIf(missing !== undefined)("the image of NATS", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-nats-container-"));
  let nats: NatsContainer;
  let bus: Bus;

  beforeAll(async () => {
    nats = await startNatsContainer(folder);
    bus = await connectBus({
      url: nats.url,
      monitorUrls: nats.monitorUrl,
      name: "writer",
      service: "writer",
      identity: "writer-0",
      log: testLog,
      credentials: { credsFile: join(nats.access, "writer.creds") },
    });
  }, CONTAINERS_MS);
  afterAll(async () => {
    await bus?.close();
    await nats?.remove();
    rmSync(folder, { recursive: true, force: true });
  }, CONTAINERS_MS);

  const streams = async (): Promise<number | undefined> => {
    const answer = await fetch(`${nats.monitorUrl}/jsz`).catch(() => undefined);
    return ((await answer?.json()) as { streams?: number } | undefined)?.streams;
  };

  test("is durable, and keeps its streams through a kill", { timeout: CONTAINERS_MS }, async () => {
    expect(await bus.proveDurability()).toMatchObject({ syncAlways: true });
    const wanted = fleetStreams({ storageBytes: 1_000_000_000, replicas: 1 });
    await bus.reconcileStreams(wanted);
    expect(await streams()).toBe(wanted.length);
    await nats.kill();
    expect(await streams()).toBeUndefined();
    await nats.start();
    await expect.poll(streams, { timeout: CONTAINERS_MS / 2, interval: 100 }).toBe(wanted.length);
    await expect
      .poll(() => bus.health({ timeoutMs: 1_000 }), { timeout: CONTAINERS_MS / 2 })
      .toMatchObject({ ok: true });
  });
});
