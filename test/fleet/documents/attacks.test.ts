// The list of attacks in EVIDENCE.md names tests that exist and are run.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";

interface NamedTest {
  readonly file: string;
  readonly title: string;
}

const PAGE = readFileSync(join(projectRoot, "shared/integrity/EVIDENCE.md"), "utf8");
const [, LIST = ""] = /^## Attacks\n([\s\S]*?)^## /m.exec(PAGE) ?? [];

/** The tests of each attack, by its first sentence. */
const ATTACKS = new Map<string, NamedTest[]>();
for (const line of LIST.split("\n")) {
  const [, attack] = /^- \*\*(.+?)\*\*/.exec(line) ?? [];
  const [, file, title] = /^ {2}- `([^`]+)`: (.+)$/.exec(line) ?? [];
  if (attack !== undefined) ATTACKS.set(attack, []);
  if (file !== undefined && title !== undefined) [...ATTACKS.values()].at(-1)?.push({ file, title });
}

function isRun({ file, title }: NamedTest): boolean {
  const path = join(projectRoot, file);
  if (!existsSync(path)) return false;
  const text = readFileSync(path, "utf8");
  const at = text.indexOf(JSON.stringify(title));
  // The title is that of a test, or of a case of one.
  return at >= 0 && !/\.(?:skip|todo|fails)\w*\($/.test(text.slice(0, at).trimEnd());
}

test("each attack has tests, and each of them exists", () => {
  expect(ATTACKS.size).toBeGreaterThanOrEqual(12);
  expect([...ATTACKS].filter(([, named]) => named.length === 0)).toEqual([]);
  const missing = [...ATTACKS.values()].flat().filter((one) => !isRun(one));
  expect(missing).toEqual([]);
});

test("a test that does not exist is found", () => {
  const [known] = [...ATTACKS.values()].flat();
  expect(isRun({ ...known!, title: `${known!.title}, or not` })).toBe(false);
  expect(isRun({ ...known!, file: "test/nothing.test.ts" })).toBe(false);
});
