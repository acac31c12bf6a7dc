import { expect, test } from "vitest";
import { readSimulateOptions, SIMULATE_HELP } from "./options.ts";

test("a broken build that no story reveals is refused with the reason, and is not in the help", () => {
  for (const [name, reason] of [
    ["unverified", "no story damages checkpoints"],
    ["hold_forgotten", "no story has operators"],
  ] as const) {
    expect(() => readSimulateOptions(["--broken", name])).toThrow(reason);
    expect(SIMULATE_HELP).not.toContain(name);
  }
  expect(() => readSimulateOptions(["--broken", "other"])).toThrow("not other");
  expect(readSimulateOptions(["--broken", "tombstone_skipped"])).toMatchObject({
    broken: "tombstone_skipped",
  });
});
