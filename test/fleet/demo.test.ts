/** The demo is a promise of the README: it runs to its end, every check in it holds, and it leaves nothing running. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../harness/project-root.ts";

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return String(port);
}

test("an agent is killed and another goes on; a task goes from agent to agent; agents fail and are recovered; everything verifies", async () => {
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
  // The second act: 70 %, the same type, another type, and the one that comes too late.
  expect(output).toMatch(/handoff requested by agent-a: the context is filling up: 0\.\d+, over 0\.7/);
  expect(output).toMatch(
    /agent-a is frozen \(SIGSTOP\).*agent-a is woken \(SIGCONT\).*agent-a +refused: FENCED/s,
  );
  expect(output).toMatch(/│ # Continue task relay-\w+.*│ > Survey .*│ ## Left out/s);
  expect(output).toMatch(/agent-a to agent-b, because of context_utilization: requested to accepted \d+ ms/);
  expect(output).toMatch(/agent-b to agent-c, because of phase_complete: requested to accepted \d+ ms/);
  expect(output).toMatch(/✓ +agent-b continued exactly where agent-a stopped/);
  expect(output).toMatch(
    /✓ +one owner at any time.*agent-a \(fence 1\).*agent-b \(fence 2\).*agent-c \(fence 3\)/,
  );
  // The third act: three agents fail at once, each in a way of its own, and nobody says so.
  for (const [kind, agent, failure] of [
    ["crash", "agent-1", "(crash): it gives no sign of life"],
    ["hang", "agent-2", "(timeout): it lives, but its step is overdue"],
    ["disk", "agent-3", "(crash): it gives no sign of life"],
  ]) {
    expect(output).toContain(`${kind}: ${agent} has failed ${failure}; its fence 1 is void`);
    expect(output).toMatch(new RegExp(`${kind}: attempt 1 at recovery.*${kind}: recovered: spare-\\d`, "s"));
  }
  expect(output).toMatch(
    /disk: one bit of (\S+) is turned over on disk.*disk: \1 is corrupt, and never served/s,
  );
  expect(output).toMatch(/agent-2 +hang: refused: FENCED/);
  expect(output.match(/one owner at any time.*nobody \(fence 2\), then spare-\d \(fence 3\)/g)).toHaveLength(
    3,
  );
  expect(output).toMatch(/✓ +the damaged checkpoint is quarantined; what it says wrongly is in no other/);
  expect(output.match(/✓/g)).toHaveLength(45);
  expect(output).not.toContain("✗");
}, 120_000);
