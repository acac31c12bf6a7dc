/** The README promises the demo: it runs to its end, all its checks pass, and no process is left. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
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

test("with --running it starts no fleet of its own", async () => {
  const FLEET_URL = `nats://127.0.0.1:${await freePort()}`;
  const child = spawn(process.execPath, ["deploy/demo/main.ts", "--exit", "--running"], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_URL, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  expect(code).toBe(1);
  expect(output).toContain(`✗          no fleet answers at ${FLEET_URL}`);
}, 60_000);

test("it refuses the folder of another fleet, and changes nothing there", async () => {
  const home = mkdtempSync(join(tmpdir(), "fleet-demo-"));
  const store = join(home, "store");
  mkdirSync(store);
  writeFileSync(join(store, "data.mdb"), "work");
  const child = spawn(process.execPath, ["deploy/demo/main.ts", "--exit"], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_HOME: home, FLEET_NATS_PORT: await freePort(), NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  expect(code).toBe(1);
  expect(output).toContain(`✗          ${home} has a fleet that is not the demo's`);
  expect(readdirSync(home, { recursive: true }).sort()).toEqual(["store", "store/data.mdb"]);
  expect(readFileSync(join(store, "data.mdb"), "utf8")).toBe("work");
  rmSync(home, { recursive: true });
}, 60_000);

test("an agent is killed and another continues; a task is handed over twice; agents fail and their tasks are recovered; all checks pass", async () => {
  const parent = mkdtempSync(join(tmpdir(), "fleet-demo-"));
  const home = join(parent, "home");
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
  const mode = statSync(home).mode & 0o777;
  rmSync(parent, { recursive: true, force: true });
  expect(code, output).toBe(0);
  expect(mode, "other users cannot read the work").toBe(0o700);
  expect(output).toContain("surveyor-a ended with SIGKILL");
  expect(output).toMatch(/✓\s+surveyor-b continued exactly where surveyor-a was killed/);
  // The second part: 70 % of the context, the same type, another type, and the late write.
  expect(output).toMatch(
    /handoff requested by agent-a: the context is filling up: \d+(\.\d)? %, \d+(\.\d)? % after the next step, over 70 %/,
  );
  expect(output).toMatch(
    /agent-a is frozen \(SIGSTOP\).*agent-a is woken \(SIGCONT\).*agent-a +refused: FENCED/s,
  );
  expect(output).toMatch(/│ # Continue task relay-\w+.*│ > Survey .*│ ## Left out/s);
  expect(output).toMatch(/agent-a to agent-b \(context_utilization\): accepted after \d+ ms/);
  expect(output).toMatch(/agent-b to agent-c \(phase_complete\): accepted after \d+ ms/);
  expect(output).toMatch(/✓ +agent-b continued exactly where agent-a stopped/);
  expect(output).toMatch(
    /✓ +one owner at any time.*agent-a \(fence 1\).*agent-b \(fence 2\).*agent-c \(fence 3\)/,
  );
  // The third part: three agents fail at once in different ways, and no agent reports it.
  for (const [kind, agent, failure] of [
    ["crash", "agent-1", "(crash): it sends no heartbeats"],
    ["hang", "agent-2", "(timeout): it is alive, but its step is overdue"],
    ["disk", "agent-3", "(crash): it sends no heartbeats"],
  ]) {
    expect(output).toContain(`${kind}: ${agent} has failed ${failure}; its fence 1 is revoked`);
    expect(output).toMatch(new RegExp(`${kind}: recovery attempt 1.*${kind}: recovered: spare-\\d`, "s"));
  }
  expect(output).toMatch(/disk: one bit of (\S+) is flipped on disk.*disk: \1 is corrupt and quarantined/s);
  expect(output).toMatch(/agent-2 +hang: refused: FENCED/);
  expect(
    output.match(/one owner at any time.*no owner \(fence 2\), then spare-\d \(fence 3\)/g),
  ).toHaveLength(3);
  expect(output).toMatch(
    /✓ +the damaged checkpoint is quarantined, and no other one contains its wrong text/,
  );
  expect(output.match(/✓/g)).toHaveLength(45);
  expect(output).not.toContain("✗");
}, 120_000);
