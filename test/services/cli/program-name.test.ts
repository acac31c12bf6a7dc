// A printed command must be one that the operator's shell finds.

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { programNameOf } from "../../../services/cli/runtime/program-name.ts";
import { projectRoot } from "../../harness/project-root.ts";

const own = join(projectRoot, "services/cli/main.ts");

test("started by npm, it is npx fleet", () => {
  expect(programNameOf({ env: { npm_command: "exec" } })).toBe("npx fleet");
  expect(programNameOf({ env: { npm_execpath: "npm-cli.js" } })).toBe("npx fleet");
});

test("in its own folder, it depends on the PATH", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-path-"));
  try {
    const env = { PATH: `/nowhere:${folder}` };
    expect(programNameOf({ env, script: own })).toBe("npx fleet");
    writeFileSync(join(folder, "fleet"), "");
    chmodSync(join(folder, "fleet"), 0o755);
    expect(programNameOf({ env, script: own })).toBe("fleet");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("in another folder, it is the installed fleet", () => {
  expect(programNameOf({ env: {}, script: "/elsewhere/main.ts" })).toBe("fleet");
  expect(programNameOf({ env: {} })).toBe("fleet");
});
