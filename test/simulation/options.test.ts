import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { BROKEN_NAMES } from "../fleet/faults/environment/broken-builds.ts";
import { readSimulateOptions, SIMULATE_HELP, storyArgs } from "./options.ts";
import { storyOf } from "./story/story.ts";
import { readStory } from "./story/story-file.ts";

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
    ["--brief"],
    ["--story", "a.json"],
  ]) {
    const options = readSimulateOptions(args)!;
    expect(readSimulateOptions([...storyArgs(options), "--seed", String(options.first)])).toMatchObject({
      ...{ broken: options.broken, size: options.size, story: options.story },
      ...{ calm: options.calm, brief: options.brief },
    });
  }
});

test("a story of a file is run once, and a size has a limit", () => {
  expect(readSimulateOptions(["--story", "a.json"])).toMatchObject({ story: "a.json", seeds: 1 });
  expect(() => readSimulateOptions(["--size", "11"])).toThrow("at most 10");
  expect(() => readSimulateOptions(["--size", "0"])).toThrow("a whole number from 1 on");
});

test("a printed story is read from a file, and any other file is refused with its problem", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-story-"));
  try {
    const file = (text: string): string => {
      const path = join(folder, "story.json");
      writeFileSync(path, text);
      return path;
    };
    const story = storyOf(7, 2);
    expect(readStory(file(JSON.stringify(story)))).toEqual(story);
    expect(() => readStory(file('{ "seed": 7 }'))).toThrow(/lacks steps, /);
    expect(() => readStory(file("null"))).toThrow(/lacks seed, /);
    expect(() => readStory(file("{"))).toThrow(/has none/);
    expect(() => readStory(join(folder, "absent.json"))).toThrow(/no such file/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
