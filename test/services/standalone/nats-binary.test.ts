/** The nats-server of an installed package: found in the user's cache, and the problems of its installation. No network is used. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { usableNatsServer } from "../../../services/standalone/nats/binary.ts";
import { startupProblemOf } from "../../../shared/runtime/process/startup.ts";
import { put, putProgram, scratchFolder } from "../../deploy/local/scratch.ts";

afterEach(() => void vi.unstubAllEnvs());

/** A folder that looks like an installed package, without a server on PATH. */
function installedPackage() {
  const root = scratchFolder();
  mkdirSync(join(root, "dist", "services"), { recursive: true });
  vi.stubEnv("XDG_CACHE_HOME", join(root, "cache"));
  vi.stubEnv("FLEET_NATS_SERVER", undefined);
  vi.stubEnv("PATH", "");
  return root;
}

const problemIn = async (root: string, env: Record<string, string> = {}) =>
  startupProblemOf(await usableNatsServer(root, env).catch((error: unknown) => error));

test("an installed package uses the server in the user's cache", async () => {
  const root = installedPackage();
  const path = putProgram(join(root, "cache/fleet/bin/nats-server"), "nats-server: v2.15.1");
  expect(await usableNatsServer(root, { PATH: "" })).toEqual({ path, version: "2.15.1" });
});

test("a cache that cannot be written ends the first start with 73 and the next step", async () => {
  const root = installedPackage();
  put(join(root, "cache"), "");
  expect(await problemIn(root)).toEqual({
    exitCode: 73,
    text: expect.stringMatching(/^no nats-server could be installed \(problem=.*cache.*ENOTDIR\).*\)$/),
  });
});

test("a wrong path in FLEET_NATS_SERVER is reported, and no other server is installed", async () => {
  const root = installedPackage();
  const named = join(root, "nowhere");
  expect(await problemIn(root, { FLEET_NATS_SERVER: named })).toEqual({
    exitCode: 69,
    text: expect.stringContaining(`${named} is not an executable file); correct FLEET_NATS_SERVER`),
  });
});
