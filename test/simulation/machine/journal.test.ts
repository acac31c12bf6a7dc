import { expect, test } from "vitest";
import { runSimulated } from "../program.ts";
import type { JournalFindings } from "./journal.program.ts";

const PROGRAM = new URL("./journal.program.ts", import.meta.url);

test("a power cut takes no record of an agent that a runner has begun", async () => {
  const { begun, found } = JSON.parse(await runSimulated(PROGRAM, ["1", "100"])) as JournalFindings;
  expect(begun).toBe(300);
  expect(found).toBe(begun);
});
