/** The levels of a disk, on the disk of the temporary folder and with limits around its real free space. */
import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createDiskSpace, nextLevel } from "../../../shared/runtime/disk-space.ts";

const path = tmpdir();
const places = [
  { use: "store", path },
  { use: "bus", path },
] as const;

test("a disk leaves a level only with a quarter more than its limit", () => {
  expect(nextLevel("ok", 200, 100)).toBe("ok");
  expect(nextLevel("ok", 199, 100)).toBe("low");
  expect(nextLevel("low", 249, 100)).toBe("low");
  expect(nextLevel("low", 250, 100)).toBe("ok");
  expect(nextLevel("low", 100, 100)).toBe("low");
  expect(nextLevel("low", 99, 100)).toBe("full");
  expect(nextLevel("full", 124, 100)).toBe("full");
  expect(nextLevel("full", 125, 100)).toBe("low");
  expect(nextLevel("full", 250, 100)).toBe("ok");
  expect(nextLevel("ok", 99, 100)).toBe("full");
  expect(nextLevel("ok", 0, 0)).toBe("ok");
});

test("two places on one disk are one disk, and each of them is full with it", async () => {
  const disk = createDiskSpace(places, { minFreeBytes: 2 ** 52, clock: systemClock });
  expect(disk.disks()).toHaveLength(1);
  expect(disk.fullDisk("store")).toMatchObject({ uses: ["store", "bus"], level: "full", path });
  expect(disk.fullDisk("bus")).toBe(disk.fullDisk("store"));
  expect(await disk.check()).toMatchObject({ ok: false, detail: expect.stringContaining("full") });
});

test("the reserve of a disk is 128 MiB, or a tenth of a small one; 0 guards nothing", async () => {
  const { blocks, bsize } = statfsSync(path);
  const [usual] = createDiskSpace(places, { clock: systemClock }).disks();
  expect(usual?.minFreeBytes).toBe(Math.min(128 * 1024 * 1024, Math.floor((blocks * bsize) / 10)));
  const unguarded = createDiskSpace(places, { minFreeBytes: 0, clock: systemClock });
  expect(unguarded.disks()).toMatchObject([{ level: "ok" }]);
  expect(await unguarded.check()).toMatchObject({ ok: true });
});

test("no place, no disk; a missing folder is an error at the start", async () => {
  const none = createDiskSpace([], { clock: systemClock });
  expect(none.disks()).toEqual([]);
  expect(await none.check()).toEqual({ ok: true, detail: "" });
  const missing = [{ use: "store", path: join(path, "fleet-missing") } as const];
  expect(() => createDiskSpace(missing, { clock: systemClock })).toThrow("ENOENT");
});
