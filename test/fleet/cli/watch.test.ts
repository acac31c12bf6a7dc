// `fleet watch` against a standalone fleet: in a terminal, and without one.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { cli, environment } from "../../services/cli/process.ts";

const SOON = { timeout: 60_000 };
const ENTER = "\u001b[?1049h";
const LEAVE = "\u001b[?1049l";
let server: TestFleet;

beforeAll(async () => {
  server = await startFleet();
  const client = await server.client("coder-1");
  const { fence } = await client.takeTask("watched", { deadlineMs: 20_000 });
  await client.task("watched", { fence: fence! }).checkpoint({
    metadata: { agent_type: "qa" },
    execution_state: { phase: "testing", progress_percent: 40 },
  });
});
afterAll(() => server.stop());

const env = (): Record<string, string> => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
});

test("without a terminal it prints one view, and as many as --count says", async () => {
  const once = await callCli(["watch", "--timeout", "20s"], { env: env() });
  expect(once).toMatchObject({ exit: 0, err: "" });
  expect(once.out).toMatch(/^Fleet \S+ at nats:/);
  expect(once.out).toMatch(/^watched +active +coder-1 +testing +40%/m);
  const views = await callCli(["watch", "--count", "2", "--interval", "10ms", "--json", "--timeout", "20s"], {
    env: env(),
  });
  const pictures = views.out.trim().split("\n");
  expect(pictures).toHaveLength(2);
  expect(JSON.parse(pictures[1]!)).toMatchObject({ tasks: [{ task_id: "watched" }], alerts: [] });
  expect(await callCli(["watch", "--interval", "0s"], { env: env() })).toMatchObject({ exit: 64, out: "" });
});

test("in a terminal it redraws itself, survives the end of the fleet, and gives the terminal back", async (context) => {
  context.skip(spawnSync("script", ["--version"]).status !== 0, "there is no `script` for a terminal");
  const command = `${process.execPath} ${cli} watch --interval 100ms --timeout 2s`;
  const terminal = spawn("script", ["-qefc", command, "/dev/null"], {
    env: { ...environment(env()), TERM: "xterm", SHELL: "/bin/sh" },
  });
  const ended = once(terminal, "exit");
  let output = "";
  terminal.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  await expect.poll(() => output, SOON).toContain("q ends");
  expect(output).toContain(ENTER);
  expect(output).toContain("watched");

  const client = await server.client("coder-1");
  await client.takeTask("second", { deadlineMs: 20_000 });
  await expect.poll(() => output, SOON).toContain("second");
  await server.stop();
  await expect.poll(() => output, SOON).toContain("No answer since");
  expect(output).not.toContain(LEAVE);

  terminal.stdin.write("q");
  expect((await ended)[0]).toBe(0);
  expect(output.slice(output.lastIndexOf("No answer since"))).toContain(LEAVE);
}, 180_000);
