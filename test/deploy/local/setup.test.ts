// The setup prints nothing if nothing is missing, and says what to do if a part cannot be installed. No network is used.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ownNatsPath } from "../../../deploy/local/nats-binary.mjs";
import { packagesReady, pinnedNode } from "../../../deploy/local/packages.mjs";
import { put, putProgram, scratchProject } from "./scratch.ts";

// The only npm on PATH fails at once, so no test waits for a network.
function setUp(root: string, env: Record<string, string> = {}) {
  const npm = putProgram(join(root, "bin", "npm"), "the registry is unavailable", 1);
  const run = spawnSync(process.execPath, [join(root, "deploy/local/setup.mjs")], {
    encoding: "utf8",
    env: { PATH: dirname(npm), ...env },
  });
  return { code: run.status, stdout: run.stdout, stderr: run.stderr };
}

/** The files of a finished npm install of the (empty) lock file, with its Node. */
function putInstalled(root: string): void {
  put(join(root, "node_modules", ".package-lock.json"), '{"packages":{}}');
  putProgram(pinnedNode(root), "v24.21.0");
}

test("a finished install is recognised, and silent from then on", () => {
  const root = scratchProject();
  putInstalled(root);
  putProgram(ownNatsPath(root), "nats-server: v2.15.1");
  expect(packagesReady(root)).toBe(false);
  expect(setUp(root)).toMatchObject({ code: 0, stdout: "" });
  expect(packagesReady(root)).toBe(true);
  expect(setUp(root)).toEqual({ code: 0, stdout: "", stderr: "" });
  expect(readdirSync(join(root, ".fleet"))).toEqual(["bin"]);
});

test("another lock file or a missing Node is detected", () => {
  const root = scratchProject();
  putInstalled(root);
  putProgram(ownNatsPath(root), "nats-server: v2.15.1");
  setUp(root);
  rmSync(pinnedNode(root));
  expect(packagesReady(root)).toBe(false);
  putProgram(pinnedNode(root), "v24.21.0");
  expect(packagesReady(root)).toBe(true);
  put(join(root, "package-lock.json"), '{"packages":{"":{},"node_modules/zod":{"version":"4.0.0"}}}');
  expect(packagesReady(root)).toBe(false);
});

test("a failed install leaves nothing that looks finished, and ends with 69", () => {
  const root = scratchProject();
  putProgram(ownNatsPath(root), "nats-server: v2.15.1");
  put(join(root, "package-lock.json"), '{"packages":{"":{},"node_modules/zod":{"version":"4.0.0"}}}');
  putInstalled(root);
  const { code, stdout, stderr } = setUp(root);
  expect({ code, stdout }).toEqual({ code: 69, stdout: "" });
  expect(stderr).toContain("npm ci failed:\n    the registry is unavailable");
  expect(packagesReady(root)).toBe(false);
  expect(existsSync(join(root, "node_modules", ".package-lock.json"))).toBe(false);
  expect(existsSync(join(root, ".fleet", "setup"))).toBe(false);
});

test("an unsuitable server in FLEET_NATS_SERVER is left to the user to repair", () => {
  const root = scratchProject();
  putInstalled(root);
  const { code, stderr } = setUp(root, { FLEET_NATS_SERVER: join(root, "nowhere") });
  expect(code).toBe(69);
  expect(stderr).toContain(`FLEET_NATS_SERVER: ${join(root, "nowhere")} is not an executable file`);
  expect(existsSync(ownNatsPath(root))).toBe(false);
});
