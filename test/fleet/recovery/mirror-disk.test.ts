// The disk of the mirror is low or full: commits continue, one log line reports it, and the files follow when there is room again.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { clear, fill, smallDisk } from "../../harness/small-disk.ts";

const SOON = { timeout: 60_000, interval: 100 };
const STOPPED = "the file mirror does not receive checkpoints";
const AGAIN = "the file mirror receives checkpoints again";

test.for([
  ["low, and the mirror leaves the rest to others", "8MiB", 12, "disk_low"],
  ["full to the last byte", "0", 0, "failed"],
] as const)(
  "a disk of the mirror that is %s",
  { timeout: 180_000 },
  async ([_what, reserve, leftMib, cause], context) => {
    const disk = smallDisk(64, context);
    const folder = join(disk, "mirror");
    const fleet = await startFleet({ FLEET_MIRROR_DIR: folder, FLEET_DISK_MIN_FREE: reserve });
    onTestFinished(() => fleet.stop());
    const client = await fleet.client();
    const file = (id: string) => join(folder, "checkpoints", "mirrored", `chk-${id}.json`);
    const written = async (goal: string): Promise<string> => {
      const { outcome, checkpointId } = await client.createCheckpoint({
        taskId: "mirrored",
        checkpoint: input({ goal }),
        // Longer than a busy machine needs: a command that is queued meanwhile is not committed yet.
        deadlineMs: 30_000,
      });
      expect(outcome).toBe("committed");
      return String(checkpointId);
    };
    const before = await written("before");
    await expect.poll(() => existsSync(file(before)), SOON).toBe(true);

    fill(disk, leftMib);
    const first = await written("during 1");
    await expect.poll(() => fleet.output(), SOON).toContain(STOPPED);
    const during = [await written("during 2"), await written("during 3")];
    expect(fleet.output()).toContain(`"cause":"${cause}"`);
    expect(during.some((id) => existsSync(file(id)))).toBe(false);

    clear(disk);
    const after = await written("after");
    for (const id of [first, ...during, after])
      await expect.poll(() => existsSync(file(id)), SOON).toBe(true);
    await expect.poll(() => fleet.output(), SOON).toContain(AGAIN);
    expect(fleet.output().split(STOPPED)).toHaveLength(2);
  },
);
