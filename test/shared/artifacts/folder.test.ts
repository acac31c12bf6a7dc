// What only the folder of artifacts can tell: whether another program has changed its files.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { afterAll, expect, test } from "vitest";
import { ArtifactFolder } from "../../../shared/artifacts/folder.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-artifact-folder-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const PARTS = 40;
const ADDED = 17;

test("the state of an upload has one place for each of its parts, in their order, however many there are", async () => {
  const store = new ArtifactFolder(root);
  const at = { tenant: "default", upload: uuidv7() };
  const put = (part: number) => store.put(at, part, Buffer.from(`part ${part}`));
  const places = async () => (await store.state({ ...at, parts: PARTS })).split(" ");
  for (let part = 0; part < PARTS; part += 1) if (part !== ADDED) await put(part);
  const before = await places();
  expect(await places()).toEqual(before);
  await put(ADDED);
  const after = await places();
  expect([before.length, after.length, new Set(after).size]).toEqual([PARTS, PARTS, PARTS]);
  expect(before).toEqual(after.with(ADDED, ""));
  await store.replace(at, PARTS - 1, Buffer.from("part"));
  const replaced = await places();
  expect(replaced.slice(0, -1)).toEqual(after.slice(0, -1));
  expect(replaced.at(-1)).not.toBe(after.at(-1));
});
