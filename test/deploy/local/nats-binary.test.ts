// The choice of the nats-server, and the problem of one that is not usable.

import { join } from "node:path";
import { expect, test } from "vitest";
import { findNatsServer, ownNatsPath } from "../../../deploy/local/nats-binary.mjs";
import { OLDEST_NATS, versionAtLeast } from "../../../deploy/local/versions.mjs";
import { put, putProgram, scratchFolder } from "./scratch.ts";

const serverAt = (path: string, version: string) => putProgram(path, `nats-server: v${version}`);

test("the named server comes first, then the project's own, then PATH", () => {
  const root = scratchFolder();
  const onPath = serverAt(join(root, "path", "nats-server"), "2.14.7");
  const env = { PATH: join(root, "path") };
  expect(findNatsServer({ root, env })).toEqual({ path: onPath, version: "2.14.7" });

  const own = serverAt(ownNatsPath(root), "2.12.0");
  expect(findNatsServer({ root, env })).toEqual({ path: own, version: "2.12.0" });

  const named = serverAt(join(root, "elsewhere", "nats"), "2.15.1");
  expect(findNatsServer({ root, env: { ...env, FLEET_NATS_SERVER: named } })).toEqual({
    path: named,
    version: "2.15.1",
  });
});

test("an old server on PATH is skipped for a newer one after it", () => {
  const root = scratchFolder();
  const old = serverAt(join(root, "old", "nats-server"), "2.9.10");
  const env = { PATH: `${join(root, "old")}:${join(root, "new")}` };
  expect(findNatsServer({ root, env })).toEqual({
    problem: expect.stringContaining(`${old} is version 2.9.10, and ${OLDEST_NATS} is required`),
  });

  const good = serverAt(join(root, "new", "nats-server"), OLDEST_NATS);
  expect(findNatsServer({ root, env })).toEqual({ path: good, version: OLDEST_NATS });
});

test("an unsuitable server in FLEET_NATS_SERVER is refused, not replaced", () => {
  const root = scratchFolder();
  serverAt(ownNatsPath(root), "2.15.1");
  for (const FLEET_NATS_SERVER of [
    serverAt(join(root, "old"), "2.9.10"),
    putProgram(join(root, "other"), "hello"),
    put(join(root, "text"), "nats-server: v2.15.1"),
    join(root, "missing"),
  ]) {
    expect(findNatsServer({ root, env: { FLEET_NATS_SERVER } })).toEqual({
      problem: expect.stringMatching(/^FLEET_NATS_SERVER: .*(old|other|text|missing)/),
    });
  }
});

test.each([
  ["2.10.27", true],
  ["2.10.26", false],
  ["2.9.99", false],
  ["2.15.0-RC.1", true],
  ["3.0.0", true],
  ["v2.10.27", true],
])("%s is new enough: %s", (version, expected) => expect(versionAtLeast(version, "2.10.27")).toBe(expected));
