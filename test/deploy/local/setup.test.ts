// The setup prints nothing if nothing is missing, and prints the next step if a part cannot be installed. No network is used.

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ownNatsPath } from "../../../deploy/local/nats-binary.mjs";
import { packagesUnlikeLock } from "../../../deploy/local/npm/lock-comparison.mjs";
import { packagesReady, pinnedNode } from "../../../deploy/local/packages.mjs";
import { put, putProgram, scratchProject } from "./scratch.ts";

interface NpmEnd {
  readonly prints: string;
  readonly code: number;
}

// The only npm on PATH ends at once, by default with an error, so no test waits for a network.
function setUp(
  root: string,
  env: Record<string, string> = {},
  { prints, code }: NpmEnd = { prints: "the registry is unavailable", code: 1 },
) {
  const npm = putProgram(join(root, "bin", "npm"), prints, code);
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

test("an npm that ends without an error and installs nothing is a failure with its output and the next step", () => {
  const root = scratchProject();
  putProgram(ownNatsPath(root), "nats-server: v2.15.1");
  put(join(root, "package-lock.json"), '{"packages":{"":{},"node_modules/zod":{"version":"4.0.0"}}}');
  putInstalled(root);
  const silent = setUp(root, {}, { prints: "npm error Exit handler never called!", code: 0 });
  expect(silent.code).toBe(69);
  expect(silent.stderr).toContain("1 of the packages in package-lock.json are missing or differ (zod)");
  expect(silent.stderr).toContain("npm error Exit handler never called!");
  expect(silent.stderr).toContain("The npm registry cannot be reached");
  expect(packagesReady(root)).toBe(false);
  expect(setUp(root, {}, { prints: "", code: 0 }).stderr).toContain("(nothing)");
});

test("an optional package that the fleet needs is not optional", () => {
  const root = scratchProject();
  const platform = { version: "1.0.0", optional: true, os: [process.platform], cpu: [process.arch] };
  const elsewhere = { version: "1.0.0", optional: true, os: ["sunos"], cpu: ["sparc"] };
  const lock = (packages: object) =>
    put(join(root, "package-lock.json"), JSON.stringify({ packages: { "": {}, ...packages } }));
  putInstalled(root);
  lock({ "node_modules/binary-sunos": elsewhere, "node_modules/helper": { version: "1", optional: true } });
  expect(packagesUnlikeLock(root)).toEqual([]);
  lock({ "node_modules/binary": platform });
  expect(packagesUnlikeLock(root)).toEqual(["binary"]);
  lock({
    "": { optionalDependencies: { lmdb: "3.5.6" } },
    "node_modules/lmdb": { version: "3.5.6", optional: true },
  });
  expect(packagesUnlikeLock(root)).toEqual(["lmdb"]);
});

test("the problems of both parts are reported", () => {
  const root = scratchProject();
  put(join(root, "package-lock.json"), '{"packages":{"":{},"node_modules/zod":{"version":"4.0.0"}}}');
  const npm = { prints: "npm error code ENOTFOUND", code: 1 };
  const { code, stderr } = setUp(root, { FLEET_NATS_SERVER: join(root, "nowhere") }, npm);
  expect(code).toBe(69);
  expect(stderr).toContain("npm dependencies: npm ci failed:\n    npm error code ENOTFOUND");
  expect(stderr).toContain("The npm registry cannot be reached");
  expect(stderr).toContain("nats-server: FLEET_NATS_SERVER:");
});

test("a project folder that cannot be written ends with 73 and one line", () => {
  const root = scratchProject();
  put(join(root, ".fleet"), "");
  const { code, stderr } = setUp(root);
  expect(code).toBe(73);
  expect(stderr).toMatch(/^fleet setup: set-up: .*\.fleet cannot be written \(EEXIST\); .*\n$/);
});

test("an unsuitable server in FLEET_NATS_SERVER is left to the user to repair", () => {
  const root = scratchProject();
  putInstalled(root);
  const { code, stderr } = setUp(root, { FLEET_NATS_SERVER: join(root, "nowhere") });
  expect(code).toBe(69);
  expect(stderr).toContain(`FLEET_NATS_SERVER: ${join(root, "nowhere")} is not an executable file`);
  expect(existsSync(ownNatsPath(root))).toBe(false);
});
