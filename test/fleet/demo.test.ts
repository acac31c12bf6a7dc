/** The demo is a promise of the README: it runs to its end, every check in it holds, and it leaves nothing running. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../harness/fleet.ts";

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return String(port);
}

test("an agent is killed, another goes on exactly there, and everything verifies", async () => {
  const home = mkdtempSync(join(tmpdir(), "fleet-demo-"));
  const child = spawn(process.execPath, ["deploy/demo/main.ts", "--exit"], {
    cwd: projectRoot,
    env: {
      ...process.env,
      FLEET_HOME: home,
      FLEET_NATS_PORT: await freePort(),
      FLEET_OPS_PORT: "0",
      NO_COLOR: "1",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  const [code] = (await once(child, "close")) as [number | null];
  rmSync(home, { recursive: true, force: true });
  expect(code, output).toBe(0);
  expect(output).toContain("surveyor-a ended: SIGKILL");
  expect(output).toMatch(/✓\s+continued exactly where the first agent was killed/);
  expect(output).not.toContain("✗");
}, 120_000);
