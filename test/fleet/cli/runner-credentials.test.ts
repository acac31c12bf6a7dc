// A runner whose credentials are missing or of another role: it refuses to start, and names what is needed.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requestAgentCredentials } from "../../../shared/bus/access/agent-credentials.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { EXAMPLE, startRunner } from "../../harness/processes/runner-process.ts";
import { callCli } from "../../services/cli/call.ts";

let fleet: TestFleet;
const elsewhere = mkdtempSync(join(tmpdir(), "fleet-elsewhere-"));

beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(elsewhere, { recursive: true, force: true });
});

/** Credentials for this role, in a file. */
async function credentials(role: string): Promise<string> {
  const file = join(elsewhere, `${role}.creds`);
  const words = ["access", "issue", "--agent", "runner-box", "--role", role, "--out", file];
  const { exit, err } = await callCli(words, { env: { FLEET_HOME: fleet.home } });
  expect(err).toBe("");
  expect(exit).toBe(0);
  return file;
}

const startWith = (env: Record<string, string>) =>
  startRunner(
    fleet,
    { implementation: { command: EXAMPLE } },
    { FLEET_HOME: elsewhere, FLEET_RUNNER_NAME: "box", ...env },
  );

const messageOf = async (starting: Promise<unknown>): Promise<string> => {
  const failure = await starting.then(
    () => undefined,
    (error: unknown) => error,
  );
  return failure instanceof Error ? failure.message : "the runner started";
};

test("a runner without credentials does not start", async () => {
  const message = await messageOf(startWith({}));
  expect(message).toContain("ended with 78");
  expect(message).toContain("the bus refuses a runner without credentials");
  expect(message).toContain("fleet access issue --role runner");
});

test.each(["agent", "orchestrator", "operator", "observer"])(
  "a runner with the credentials of an %s does not start",
  async (role) => {
    const message = await messageOf(startWith({ FLEET_NATS_CREDS: await credentials(role) }));
    expect(message).toContain("ended with 78");
    expect(message).toContain("the bus refuses a runner with the credentials of another role");
  },
);

test("a runner with its own credentials starts, and gets credentials for its agents from the fleet", async () => {
  const file = await credentials("runner");
  const runner = await startWith({ FLEET_NATS_CREDS: file });
  expect(await runner.terminate()).toBe(0);
  const bus = await connectBus({
    ...{ url: fleet.url, name: "box", identity: "runner-box", tenant: "default", log: testLog },
    credentials: { credsFile: file },
  });
  const of = { tenant: "default", runner: "runner-box", agentId: "coder-1" };
  const creds = await requestAgentCredentials(bus, of).finally(() => bus.close());
  const credentialsFile = join(elsewhere, "coder-1.creds");
  writeFileSync(credentialsFile, creds);
  const agent = await connect({
    ...{ url: fleet.url, agentId: "coder-1", env: { FLEET_HOME: elsewhere }, fallback: "none" },
    credentials: credentialsFile,
  });
  expect((await agent.takeTask("remote")).fence).toBe(1);
  await agent.close();
});

test("a command without credentials names the next step once", async () => {
  const { exit, err } = await callCli(["task", "list", "--timeout", "20s"], {
    env: { FLEET_HOME: elsewhere, FLEET_URL: fleet.url },
  });
  expect(exit).not.toBe(0);
  expect(err).toContain("the bus refused the credentials");
  expect(err.match(/FLEET_NATS_CREDS/g)).toHaveLength(1);
});
