import { expect, test } from "vitest";
import { PROGRAM_LIMIT_MS, runSimulated } from "../program.ts";
import type { OverlapFindings } from "./overlaps.program.ts";

const PROGRAM = new URL("./overlaps.program.ts", import.meta.url);

test("faults of one kind that overlap end with the last of them, and an unknown program is an error", {
  timeout: PROGRAM_LIMIT_MS,
}, async () => {
  const { works, unknown } = JSON.parse(await runSimulated(PROGRAM, [])) as OverlapFindings;
  const ended = { between: false, after: true };
  expect(works).toEqual({ partition: ended, restart_bus: ended, outage: ended, power_cut: ended });
  expect(unknown).toBe("the world has no program takers");
});
