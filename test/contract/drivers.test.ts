// Every driver has a test file that runs the contract.

import { readdir, readFile } from "node:fs/promises";
import { expect, it } from "vitest";

const drivers = await readdir(new URL("../../shared/store/drivers/", import.meta.url));

it.each(drivers)("driver %s runs the store contract", async (file) => {
  const name = file.replace(/\.ts$/, "");
  const test = await readFile(new URL(`./store.${name}.test.ts`, import.meta.url), "utf8");
  expect(test).toContain(`shared/store/drivers/${file}`);
  expect(test).toMatch(/^\s*storeContract\(/m);
});

it("finds the drivers", () => {
  expect(drivers).toContain("lmdb.ts");
});
