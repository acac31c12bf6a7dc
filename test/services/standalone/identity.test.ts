/** The identity of a fleet: made once, kept over restarts and moves, and made again in a copy beside its original. */
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openIdentity } from "../../../services/standalone/identity.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-identity-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A home whose fleet has run once. */
function startedHome(name: string): { readonly home: string; readonly fleet: string } {
  const home = join(root, name);
  mkdirSync(home);
  const fleet = openIdentity(home);
  const record = { busUrl: "nats://127.0.0.1:1", fleet, home };
  writeFileSync(join(home, "addresses.json"), JSON.stringify(record));
  return { home, fleet };
}

test("it is random, and stays the same at every start, also after the folder was moved", () => {
  const { home, fleet } = startedHome("one");
  expect(fleet).toMatch(/^[0-9a-f]{16}$/);
  expect(startedHome("two").fleet).not.toBe(fleet);
  expect(openIdentity(home)).toBe(fleet);
  renameSync(home, join(root, "moved"));
  expect(openIdentity(join(root, "moved"))).toBe(fleet);
});

test("a copy beside the original gets its own", () => {
  const { home, fleet } = startedHome("original");
  const copy = join(root, "copy");
  cpSync(home, copy, { recursive: true });
  const own = openIdentity(copy);
  expect(own).not.toBe(fleet);
  expect(openIdentity(home)).toBe(fleet);
});

test("one that cannot be read stops the start, and is not replaced", () => {
  const { home } = startedHome("damaged");
  writeFileSync(join(home, "fleet.json"), "{}");
  expect(() => openIdentity(home)).toThrow("the identity of the fleet cannot be read");
});
