import { expect, test } from "vitest";
import { runSimulated } from "../program.ts";
import { SimulatedDisk } from "./disk.ts";
import { appendBatch, recoverLog } from "./log.ts";
import type { PowerCutFindings } from "./power-cuts.program.ts";

const PROGRAM = new URL("./power-cuts.program.ts", import.meta.url);

test("power cuts keep each acknowledged write, no refused one, and either outcome of the others", async () => {
  const found = JSON.parse(await runSimulated(PROGRAM, ["1", "60"])) as PowerCutFindings;
  expect(found).toMatchObject({ seeds: 60, lost: 0, wrongSums: 0 });
  expect(found.acknowledged).toBeGreaterThan(1_000);
  expect(found.unknownKept).toBeGreaterThan(0);
  expect(found.unknownLost).toBeGreaterThan(0);
  for (const [name, count] of Object.entries(found.faults)) expect(count, name).toBeGreaterThan(10);
});

/** A slab with one request of this many bytes. */
function slabOf(bytes: number) {
  const request = Buffer.alloc(bytes, 7);
  request.writeUInt32BE(bytes);
  return { buffer: Uint8Array.from(request).buffer, requests: 1 };
}

test("a power cut keeps, loses and tears unsynced sectors, and never a synced one", () => {
  let state = 1;
  const random = () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const kept = { whole: 0, none: 0, changed: 0 };
  for (let n = 0; n < 100; n += 1) {
    const disk = new SimulatedDisk();
    appendBatch(disk, [slabOf(900)]);
    disk.sync();
    const synced = Buffer.from(disk.bytes);
    appendBatch(disk, [slabOf(300), slabOf(200)]);
    const all = Buffer.from(disk.bytes);
    disk.powerCut(random);
    expect(disk.bytes.subarray(0, synced.length)).toEqual(synced);
    if (disk.bytes.equals(all)) kept.whole += 1;
    else kept.changed += 1;
    const slabs = recoverLog(disk);
    if (slabs.length === 1) kept.none += 1;
    expect(slabs[0]!.buffer.byteLength).toBe(900);
    expect(slabs.length).toBeLessThanOrEqual(3);
    // What is left of a torn record must not be taken for one after the next power cut.
    expect(recoverLog(disk)).toHaveLength(slabs.length);
    appendBatch(disk, [slabOf(40)]);
    expect(recoverLog(disk)).toHaveLength(slabs.length + 1);
  }
  for (const count of Object.values(kept)) expect(count).toBeGreaterThan(0);
});
