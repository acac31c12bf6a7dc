// Keeps the project tidy by rule, not by memory. Each rule is shown a project that breaks it and one that keeps it
// before it judges ours, so that none can pass by accident.

import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import * as dependencies from "./tidy/dependencies.ts";
import * as layers from "./tidy/layers.ts";
import * as layout from "./tidy/layout.ts";
import * as names from "./tidy/names.ts";
import * as prose from "./tidy/prose.ts";
import { projectFiles, type Rule } from "./tidy/source.ts";
import * as words from "./tidy/words.ts";

const files = projectFiles(fileURLToPath(new URL("..", import.meta.url)));
const rules: Rule[] = [layout, layers, words, names, prose, dependencies].flatMap((chapter) =>
  Object.values(chapter),
);

test("the project was found", () => {
  expect(files.map(({ path }) => path)).toContain("package.json");
  expect(files.length).toBeGreaterThan(50);
});

describe.each(rules)("$name", (rule) => {
  test("sees what breaks it", () => {
    const offences = rule.check(rule.broken);
    expect(offences).not.toEqual([]);
    for (const offence of offences) expect(offence).toMatch(/^[\w./-]+(:\d+)?: ./);
  });

  test("accepts what keeps it", () => expect(rule.check(rule.kept)).toEqual([]));

  test("is kept here", () => expect(rule.check(files)).toEqual([]));
});
