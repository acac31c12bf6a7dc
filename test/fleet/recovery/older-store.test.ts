// A store that another tool has put back to an earlier time, beside the streams of the bus, which know what came after.

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { expect, onTestFinished, test } from "vitest";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type ConnectOptions, FleetError } from "../../../shared/sdk/sdk.ts";
import { administratorBus } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const LAST_MS = 300_000;
const SOON = { timeout: 60_000, interval: 100 };
const PATIENT = { deadlineMs: 60_000 };
const AGENT: ConnectOptions = { fallback: "none" };

/** Resolves when the events of all commands so far are on the bus. */
async function published(fleet: TestFleet): Promise<void> {
  const { admin } = await fleet.client("human=auditor");
  await expect.poll(async () => (await admin.status()).outbox.depth, SOON).toBe(0);
}

/** Any client can make JetStream store its confirmation as the newest message of the events. */
async function confirmAmongEvents(fleet: TestFleet): Promise<void> {
  const bus = await administratorBus(fleet);
  const body = Buffer.from(JSON.stringify({ stream: STREAMS.exits, seq: 1 }));
  for (let n = 0; n < 20; n += 1)
    await bus.publishDurable(
      SUBJECTS.event("default", "TASK_TAKEN", `any-${n}`),
      { body },
      { messageId: uuidv7(), timeoutMs: 30_000 },
    );
  await bus.close();
}

test(
  "no service opens an older copy of the store until `fleet restore` has ended, and an empty one begins",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-older-"));
    const fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1", FLEET_SCRUB_EVERY: "off" });
    onTestFinished(async () => {
      await fleet.stop();
      rmSync(folder, { recursive: true, force: true });
    });
    const store = join(fleet.home, "store");
    const agent = await fleet.client("agent-1", "default", AGENT);
    const { fence } = await agent.takeTask("task-1", PATIENT);
    await agent.createCheckpoint({
      taskId: "task-1",
      checkpoint: input({ goal: "kept" }),
      fence,
      ...PATIENT,
    });
    await published(fleet);
    await fleet.terminate();
    const restoredAt = new Date().toISOString();
    cpSync(store, join(folder, "copy"), { recursive: true });
    await fleet.start();
    const after = { taskId: "task-1", checkpoint: input({ goal: "lost" }), fence, ...PATIENT };
    await agent.createCheckpoint(after);
    await published(fleet);
    await confirmAmongEvents(fleet);
    await fleet.terminate();
    rmSync(store, { recursive: true });
    cpSync(join(folder, "copy"), store, { recursive: true });
    await expect(fleet.start()).rejects.toThrow(
      /the store lacks the newest event of the bus: it is an older copy.*event=\S*task-1.*fleet restore --restored-at/s,
    );
    const restored = await callCli(["restore", "--restored-at", restoredAt, "--json"], {
      env: {
        ...{ FLEET_HOME: fleet.home, FLEET_STORE: `lmdb:${store}` },
        // The store began with signatures, and this call names no home of its own.
        FLEET_SIGNING_KEY: join(fleet.home, "signing-key.pem"),
      },
    });
    expect({ exit: restored.exit, err: restored.err }).toEqual({ exit: 0, err: "" });
    await fleet.start();
    expect(await agent.getTask("task-1", PATIENT)).toMatchObject({ owner: null, seq: 1 });
    const fenced = await agent.createCheckpoint(after).catch((error: unknown) => error);
    expect(fenced).toBeInstanceOf(FleetError);
    expect(fenced).toMatchObject({ code: "FENCED" });
    // An empty store may begin beside the events of a lost one.
    await published(fleet);
    await fleet.terminate();
    rmSync(store, { recursive: true });
    await fleet.start();
    expect(await agent.getTask("task-1", PATIENT)).toBeNull();
  },
  LAST_MS,
);
