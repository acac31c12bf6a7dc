import { describe, expect, test } from "vitest";
import { readSoakOptions } from "./soak-options.ts";

describe("options of the soak", () => {
  test("a run takes an hour by default, of which the first quarter is not judged", () => {
    const defaults = {
      minutes: 60,
      warmUp: 15,
      rate: 10,
      every: 60,
      services: false,
      leak: null,
      json: null,
    };
    expect(readSoakOptions([])).toEqual(defaults);
  });

  test("hours and minutes are the same length in two units, and a short run has a short warm-up", () => {
    expect(readSoakOptions(["--hours", "0.5"])).toEqual(readSoakOptions(["--minutes", "30"]));
    expect(readSoakOptions(["--minutes", "10"])).toMatchObject({ minutes: 10, warmUp: 4, every: 18 });
    expect(readSoakOptions(["--hours", "8", "--warm-up", "30"])).toMatchObject({ minutes: 480, warmUp: 30 });
  });

  test.each([
    [["--hours", "1", "--minutes", "1"], /not both/],
    [["--rate", "0"], /--rate must be a number above 0/],
    [["--every", "soon"], /--every must be a number above 0/],
    [["--minutes", "5", "--warm-up", "5"], /shorter than the run/],
    [["--minutes", "10", "--every", "60"], /time for 8 samples/],
    [["--leak", "water"], /the leaks are memory, descriptors/],
    [["--no-such"], /no-such/],
    [["stray"], /stray/],
  ])("%j is refused", (args, problem) => expect(() => readSoakOptions(args)).toThrow(problem));

  test("--help starts no run", () => expect(readSoakOptions(["--help"])).toBeNull());
});
