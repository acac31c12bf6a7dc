import { expect, test } from "vitest";
import { runSimulated } from "../program.ts";
import type { SpoolFindings } from "./spools.program.ts";

const PROGRAM = new URL("./spools.program.ts", import.meta.url);

test("kills and power cuts take no acknowledged command out of a spool, and one process sends at a time", async () => {
  const found = JSON.parse(await runSimulated(PROGRAM, ["1", "40"])) as SpoolFindings;
  expect(found).toMatchObject({ seeds: 40, lost: 0, concurrentSenders: 0 });
  expect(found.acknowledged).toBeGreaterThan(1_000);
  expect(found.unknownKept).toBeGreaterThan(0);
  expect(found.unknownLost).toBeGreaterThan(0);
  expect(found.damaged).toBeGreaterThan(0);
});
