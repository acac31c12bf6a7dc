// SPEC.md names files that exist, and says of every guarantee where it is kept and which test upholds it, or that it is not yet.

import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ERROR_CODES } from "../../../shared/protocol/errors.ts";
import { COMMAND_OPS, QUERY_OPS } from "../../../shared/protocol/subjects.ts";
import { TASK_STATES } from "../../../shared/protocol/task.ts";

const root = new URL("../../../", import.meta.url);
const spec = readFileSync(new URL("shared/protocol/SPEC.md", root), "utf8");
const PATH = /\b(?:shared|services|test|deploy)\/[\w./-]*[\w/]/g;

const guarantees = spec
  .slice(spec.indexOf("\n## Guarantees"))
  .split("\n### ")
  .slice(1)
  .map((text) => ({ title: text.split("\n", 1)[0] as string, text }));

test.each([...new Set(spec.match(PATH))])("%s exists", (path) => {
  expect(existsSync(new URL(path, root))).toBe(true);
});

test("the guarantees are numbered from 1 to 11", () => {
  expect(guarantees.map(({ title }) => Number.parseInt(title, 10))).toEqual([
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
  ]);
});

describe.each(guarantees)("guarantee $title", ({ text }) => {
  test("says where it is enforced, in one paragraph of its own", () => {
    expect(text.match(/^Enforcement: \S/gm)).toHaveLength(1);
  });

  test("names code that enforces it and a test that upholds it, or says what is missing", () => {
    const enforcement = text.slice(text.indexOf("Enforcement:"));
    const tested = /^Tests: /m.test(enforcement);
    const paths: string[] = enforcement.match(PATH) ?? [];
    if (tested) {
      expect(paths.some((path) => path.startsWith("test/"))).toBe(true);
      expect(paths.some((path) => !path.startsWith("test/"))).toBe(true);
    } else {
      expect(enforcement).toMatch(/^Not yet enforced: \S/m);
    }
  });
});

test("operations and states are those of the code", () => {
  for (const name of [...COMMAND_OPS, ...QUERY_OPS, ...TASK_STATES]) expect(spec).toContain(`\`${name}\``);
});

test("a code that is named exists", () => {
  const codes: readonly string[] = ERROR_CODES;
  const named = spec.match(/\b(?:INVALID|[A-Z]{4,}_?[A-Z]*)\b/g) ?? [];
  const others = /^(CHECKPOINT_CORRUPTED|SIGKILL|LMDB|UTF|JSON)$/;
  expect(named.filter((word) => !codes.includes(word) && !others.test(word))).toEqual([]);
});
