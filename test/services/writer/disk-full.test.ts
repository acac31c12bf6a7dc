/** A writer and a reader while a disk is full: nothing is applied, and the answer depends on the disk of the queue. */
import { tmpdir } from "node:os";
import { afterEach, beforeEach, expect, test } from "vitest";
import { renderQueue } from "../../../services/cli/rendering/operations/queue.ts";
import { renderStatus } from "../../../services/cli/rendering/operations/status.ts";
import { createView } from "../../../services/cli/rendering/terminal/view.ts";
import type { FleetStatus } from "../../../shared/protocol/queries.ts";
import type { QueueStatus } from "../../../shared/protocol/queue-queries.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createDiskSpace, type DiskUse } from "../../../shared/runtime/disk-space.ts";
import { creation, type InProcessFleet, openInProcessWriter } from "../../harness/in-process-fleet.ts";

/** More than any disk has. */
const UNREACHED = 2 ** 52;
const plainView = createView({ write: () => {} }, { color: false, env: {}, now: 0 });

let fleet: InProcessFleet;

beforeEach(async () => {
  fleet = await openInProcessWriter();
});
afterEach(() => fleet.close());

/** Starts the services again, with the real disk of these uses counted as full. */
async function restart(...uses: DiskUse[]): Promise<void> {
  await fleet.stopAll();
  const places = uses.map((use) => ({ use, path: tmpdir() }));
  fleet.disk = createDiskSpace(places, { minFreeBytes: UNREACHED, clock: systemClock });
  await fleet.startWriter();
  await fleet.startReader();
}

const queueStatus = async () => (await fleet.ask("queue_status")).result as QueueStatus;

test("with one disk for store and queue, commands are refused and nothing is stored", async () => {
  const applied = creation();
  expect(await fleet.send("create", applied)).toMatchObject({ status: "committed" });
  await restart("store", "bus");
  const refused = creation();
  for (let n = 0; n < 3; n += 1)
    expect(await fleet.send("create", refused, { task: "task-2" })).toMatchObject({
      status: "error",
      error: {
        code: "UNAVAILABLE",
        message: "the disk is full",
        retryable: true,
        details: { disk_of: ["store", "bus"], min_free_bytes: UNREACHED },
        retry_after_ms: 5_000,
      },
    });
  // A command that was applied before gets its answer, because an error means that nothing was applied.
  expect(await fleet.send("create", applied)).toMatchObject({ status: "committed", replayed: true });
  // The events of sessions would eat the reserve.
  const event = { session_id: "session-1", event: "session_start", at: new Date().toISOString() };
  const sendEvent = () => fleet.ask("turn_event", { ...event, vendor: "codex" });
  expect(await sendEvent()).toMatchObject({
    error: { code: "UNAVAILABLE", message: "the disk is full", retryable: true },
  });
  expect(await queueStatus()).toMatchObject({ depth: 0, left_total: 0, store: "full", accepts: false });
  expect(renderQueue(await queueStatus(), plainView)).toContain(
    "its disk is full; commands are refused, because the disk of the queue is full",
  );
  const { result } = await fleet.ask("status");
  const status = result as FleetStatus;
  expect(status.disks).toMatchObject([{ disk_of: ["store", "bus"], state: "full" }]);
  expect(renderStatus(status, { url: "", fleet: "fleet" }, plainView)).toMatch(
    /disk +full +store and bus: .* free of .*; commands are refused below 4096 TiB/,
  );
  await restart();
  expect(await fleet.send("create", refused, { task: "task-2" })).toMatchObject({ status: "committed" });
  expect(await sendEvent()).toMatchObject({ result: { decision: "recorded" } });
});

test("with a queue on another disk, commands are queued in order and applied when there is room", async () => {
  await restart("store");
  const [first, second] = [creation(), creation()];
  expect(await fleet.send("create", first)).toMatchObject({ status: "queued" });
  expect(await fleet.send("create", { ...second, after: first.command_id })).toMatchObject({
    status: "queued",
  });
  // A command that cannot be queued is refused.
  expect(await fleet.send("take", { command_id: creation().command_id })).toMatchObject({
    error: { code: "UNAVAILABLE", message: "the disk is full" },
  });
  expect(await queueStatus()).toMatchObject({ depth: 2, left_total: 0, store: "full", accepts: true });
  await restart();
  await fleet.drained();
  expect(await fleet.applied()).toEqual([first.command_id, second.command_id]);
  expect(await queueStatus()).toMatchObject({ depth: 0, left_total: 2, store: "ok", dead: 0 });
});

test("with only the disk of the queue full, commands are applied", async () => {
  await restart("bus");
  expect(await fleet.send("create", creation())).toMatchObject({ status: "committed" });
});
