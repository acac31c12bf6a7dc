// A real server accepts the shipped configuration, and the configuration keeps the guarantees that the protocol needs.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { findNatsServer } from "../../deploy/local/nats-binary.mjs";
import { writeClusterFiles } from "../../shared/bus/access/cluster.ts";
import { parseServerName } from "../../shared/bus/server-name.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const path = `${root}/deploy/nats/nats.conf`;
const conf = readFileSync(path, "utf8");

test("the server accepts the configuration with the rights of the roles, and does not start without them", async () => {
  const server = findNatsServer({ root });
  if ("problem" in server) throw new Error(server.problem);
  const dir = mkdtempSync(join(tmpdir(), "fleet-nats-conf-"));
  try {
    const check = (file: string) =>
      spawnSync(server.path, ["-t", "-c", file], { encoding: "utf8", cwd: dir });
    const open = check(path);
    expect(open.status).not.toBe(0);
    expect(open.stderr).toContain("access.conf");
    await writeClusterFiles({ keys: join(dir, "keys"), dir, serverConfig: conf, now: new Date() });
    const run = check(join(dir, "nats.conf"));
    expect(run.stderr).toContain("is valid");
    expect(run.status).toBe(0);
    const name = () => /^server_name: (.*)$/m.exec(readFileSync(join(dir, "nats.conf"), "utf8"))?.[1];
    const first = name();
    expect(parseServerName(first)).toEqual({
      fleet: expect.stringMatching(/^[0-9a-f]{16}$/),
      pid: undefined,
    });
    await writeClusterFiles({ keys: join(dir, "keys"), dir, serverConfig: conf, now: new Date() });
    expect(name()).toBe(first);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
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
