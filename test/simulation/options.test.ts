import { expect, test } from "vitest";
import { BROKEN_NAMES } from "../fleet/faults/environment/broken-builds.ts";
import { readSimulateOptions, SIMULATE_HELP } from "./options.ts";

test("every broken build can be chosen and is in the help, and another one is refused", () => {
  for (const broken of BROKEN_NAMES) {
    expect(readSimulateOptions(["--broken", broken])).toMatchObject({ broken });
    expect(SIMULATE_HELP).toContain(broken);
  }
  expect(() => readSimulateOptions(["--broken", "other"])).toThrow("not other");
});
