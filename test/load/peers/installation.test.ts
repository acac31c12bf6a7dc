import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { installedSaver, saverPackages } from "./installation.ts";

test("every package of a saver has an exact version, those of this project its own", () => {
  const manifest = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
  for (const kind of ["postgres", "sqlite"] as const) {
    const packages = saverPackages(kind);
    expect(packages).toHaveProperty([`@langchain/langgraph-checkpoint-${kind}`]);
    for (const [name, version] of Object.entries(packages)) {
      expect(version).toMatch(/^\d+\.\d+\.\d+$/);
      if (name in manifest.devDependencies) expect(version).toBe(manifest.devDependencies[name]);
    }
  }
});

test("a saver that cannot be installed is left out, in one line with the reason", async () => {
  const lines: string[] = [];
  const install = async () => {
    throw new Error("Command failed: npm install\nnpm error code ENOTFOUND\n");
  };
  expect(await installedSaver("sqlite", (line) => lines.push(line), install)).toBeNull();
  expect(lines).toEqual([
    "peers: @langchain/langgraph-checkpoint-sqlite is skipped, because it cannot be installed: Command failed: npm install; npm error code ENOTFOUND",
  ]);
});
