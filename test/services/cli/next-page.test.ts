// The command for the next page repeats the current call: a real shell must read it back word by word.

import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { expect, test } from "vitest";
import { nextCommand } from "../../../services/cli/runtime/next-page.ts";

const cursor = { option: "--cursor", value: "abc" };

test.each([
  [["checkpoint", "list"], {}, "fleet checkpoint list --cursor abc"],
  [
    ["checkpoint", "list", "--cursor", "old", "--limit", "2"],
    {},
    "fleet checkpoint list --limit 2 --cursor abc",
  ],
  [["checkpoint", "list", "--cursor=old"], {}, "fleet checkpoint list --cursor abc"],
  [
    ["checkpoint", "search", "--from", "2h", "--text", "two words"],
    { "--from": "2026-01-04T15:30:00.000Z" },
    "fleet checkpoint search --from 2026-01-04T15:30:00.000Z --text 'two words' --cursor abc",
  ],
  [["checkpoint", "search", "--from=2h"], { "--from": "T" }, "fleet checkpoint search --from T --cursor abc"],
  [
    ["checkpoint", "search", "--to", "2h"],
    { "--to": undefined },
    "fleet checkpoint search --to 2h --cursor abc",
  ],
])("%j", (argv, fixed, expected) => {
  expect(nextCommand("fleet", argv, { ...cursor, fixed })).toBe(expected);
});

test("the command begins with the name of the program", () => {
  expect(nextCommand("npx fleet", ["events"], cursor)).toBe("npx fleet events --cursor abc");
});

test("a shell reads back the words of the call", () => {
  const word = fc
    .string({ unit: "binary", minLength: 0 })
    .filter((text) => !/\0/.test(text) && text.isWellFormed());
  fc.assert(
    fc.property(
      fc.array(
        word.map((text) => `x${text}`),
        { maxLength: 5 },
      ),
      (words) => {
        const command = nextCommand("fleet", words, cursor).replace(/^fleet/, "printf '%s\\0'");
        const read = spawnSync("sh", ["-c", command], { encoding: "utf8" }).stdout.split("\0").slice(0, -1);
        expect(read).toEqual([...words, "--cursor", "abc"]);
      },
    ),
    { numRuns: 40 },
  );
});
