import { describe, expect, test } from "vitest";
import { GROUPS, readOptions } from "./options.ts";

describe("options", () => {
  test("every group is measured by default, but for the one that installs packages", () => {
    expect(readOptions([])).toEqual({
      only: new Set(GROUPS.filter((name) => name !== "peers")),
      stores: ["lmdb", "foundationdb"],
      quick: false,
      large: false,
      json: null,
      profile: null,
      account: false,
    });
  });

  test("group names are separated by commas", () => {
    expect(readOptions(["--only", "raw, burst", "--json", "x.json"])).toMatchObject({
      only: new Set(["raw", "burst"]),
      json: "x.json",
    });
  });

  test("the account is of the group that it needs", () => {
    expect(readOptions(["--only", "sustained", "--account"])).toMatchObject({ account: true });
    expect(() => readOptions(["--only", "raw", "--account"])).toThrow(/needs the group sustained/);
  });

  test("--peers adds the savers of others to the chosen groups", () => {
    expect(readOptions(["--peers"])?.only).toEqual(new Set(GROUPS));
    expect(readOptions(["--peers", "--only", "raw"])?.only).toEqual(new Set(["raw", "peers"]));
  });

  test("one store is chosen by its name", () => {
    expect(readOptions(["--store", "fdb"])?.stores).toEqual(["foundationdb"]);
    expect(readOptions(["--store", "lmdb"])?.stores).toEqual(["lmdb"]);
  });

  test.each([["--only", "raw,no-such"], ["--only", ""], ["--store", "memory"], ["--no-such"], ["stray"]])(
    "%s %s is refused",
    (...args) => expect(() => readOptions(args)).toThrow(),
  );

  test("--help starts no run", () => expect(readOptions(["--help", "--quick"])).toBeNull());
});
