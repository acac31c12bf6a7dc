// The rules of the project's layout, names and words. Each rule first checks a project that violates it and one that follows
// it, so that no rule can pass by accident.

import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import * as dependencies from "./tidy/dependencies.ts";
import * as layers from "./tidy/layers.ts";
import * as layout from "./tidy/layout.ts";
import * as names from "./tidy/names.ts";
import * as prose from "./tidy/prose.ts";
import * as singleSource from "./tidy/single-source.ts";
import { projectFiles, type Rule } from "./tidy/source.ts";

const files = projectFiles(fileURLToPath(new URL("..", import.meta.url)));
const rules: Rule[] = [layout, layers, singleSource, names, prose, dependencies].flatMap((chapter) =>
  Object.values(chapter),
);

test("the project was found", () => {
  expect(files.map(({ path }) => path)).toContain("package.json");
  expect(files.length).toBeGreaterThan(50);
});

describe.each(rules)("$name", (rule) => {
  test("reports a violation", () => {
    const offences = rule.check(rule.broken);
    expect(offences).not.toEqual([]);
    for (const offence of offences) expect(offence).toMatch(/^[\w./-]+(:\d+)?: ./);
  });

  test("accepts a project that follows it", () => expect(rule.check(rule.kept)).toEqual([]));

  test("holds in this project", () => expect(rule.check(files)).toEqual([]));
});
