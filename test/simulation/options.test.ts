import { expect, test } from "vitest";
import { BROKEN_NAMES } from "../fleet/faults/environment/broken-builds.ts";
import { readSimulateOptions, SIMULATE_HELP, storyArgs } from "./options.ts";

test("every broken build can be chosen and is in the help, and another one is refused", () => {
  for (const broken of BROKEN_NAMES) {
    expect(readSimulateOptions(["--broken", broken])).toMatchObject({ broken });
    expect(SIMULATE_HELP).toContain(broken);
  }
  expect(() => readSimulateOptions(["--broken", "other"])).toThrow("not other");
});

test("the arguments of a story choose it again", () => {
  for (const args of [
    ["--seed", "7"],
    ["--broken", BROKEN_NAMES[0]!, "--size", "3", "--calm"],
    ["--story", "a.json"],
  ]) {
    const options = readSimulateOptions(args)!;
    expect(readSimulateOptions([...storyArgs(options), "--seed", String(options.first)])).toMatchObject({
      ...{ broken: options.broken, size: options.size, story: options.story },
      calm: options.calm,
    });
  }
});

test("a story of a file is run once, and a size has a limit", () => {
  expect(readSimulateOptions(["--story", "a.json"])).toMatchObject({ story: "a.json", seeds: 1 });
  expect(() => readSimulateOptions(["--size", "11"])).toThrow("at most 10");
  expect(() => readSimulateOptions(["--size", "0"])).toThrow("a whole number from 1 on");
});
