/** deploy/SETTINGS.md is current, and every process means the same by a setting. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PAGE, PROCESSES, settingsPage } from "../../../deploy/settings/settings-page.ts";
import { SETTING_NAMES } from "../../../shared/runtime/settings/known-settings.ts";

test("the page is up to date (npm run generate)", () => {
  expect(readFileSync(PAGE, "utf8")).toBe(settingsPage());
});

test("a setting has one meaning in all processes", () => {
  const meanings = new Map<string, Set<string>>();
  for (const { name, description } of Object.values(PROCESSES).flatMap((fields) => Object.values(fields)))
    meanings.set(name, (meanings.get(name) ?? new Set()).add(description));
  const different = [...meanings].filter(([, descriptions]) => descriptions.size > 1);
  expect(different).toEqual([]);
});

test("every process knows all names, so that it warns of a mistyped one only", () => {
  const names = Object.values(PROCESSES).flatMap((fields) => Object.values(fields).map(({ name }) => name));
  const ours = new Set(names.filter((name) => name.startsWith("FLEET_")));
  expect([...SETTING_NAMES].sort()).toEqual([...ours].sort());
});
