// A real server accepts the shipped configuration, and the configuration keeps the guarantees that the protocol needs.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { findNatsServer } from "../../deploy/local/nats-binary.mjs";
import { LIMITS } from "../../shared/protocol/limits.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const path = `${root}/deploy/nats/nats.conf`;
const conf = readFileSync(path, "utf8");

test("the server accepts the configuration", () => {
  const server = findNatsServer({ root });
  if ("problem" in server) throw new Error(server.problem);
  const run = spawnSync(server.path, ["-t", "-c", path], { encoding: "utf8" });
  expect(run.stderr).toContain("is valid");
  expect(run.status).toBe(0);
});

test("every acknowledged message is synced, and the largest request fits with its headers", () => {
  expect(conf).toMatch(/^ {2}sync_interval: always$/m);
  const megabytes = Number(/^max_payload: (\d+)MB$/m.exec(conf)?.[1]);
  expect(megabytes * 1024 * 1024).toBe(LIMITS.message_bytes_max);
});

test("nothing listens beyond this machine", () => {
  const addresses = [...conf.matchAll(/^(?:listen|http): "([^"]+):\d+"$/gm)].map(([, address]) => address);
  expect(addresses).toEqual(["127.0.0.1", "127.0.0.1"]);
});
