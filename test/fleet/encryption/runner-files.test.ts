// The files of agents that a runner has started: plain without a key, sealed when the end of the agent is reported with one, those of earlier agents too.

import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { newEncryptionKeyFile } from "../../../shared/sdk/encryption/key-file.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { filesWith, holdsText } from "../../harness/encryption/raw-bytes.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { startRunner } from "../../harness/processes/runner-process.ts";
import type { TestService } from "../../harness/processes/services.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

const LAST_MS = 300_000;
const SOON = { timeout: 60_000, interval: 100 };
const CANARY = "canary-2a91f7d36c0be584";
/** It prints its prompt, and ends. */
const AGENTS = { documentation: { command: ["sh", "-c", 'cat; echo "$FLEET_SPOOL_KEY"'], prompt: "stdin" } };

const traces: Buffer[] = [];
let collector: Server;
let fleet: TestFleet;
let client: FleetClient;
let runner: TestService | undefined;
let folder: string;
let key: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-runner-files-"));
  key = join(folder, "machine.key");
  newEncryptionKeyFile(key);
  collector = createServer(async (request, response) => {
    for await (const part of request) traces.push(part as Buffer);
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  }).listen(0, "127.0.0.1");
  await once(collector, "listening");
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
  client = await fleet.client("person");
}, LAST_MS);
afterAll(async () => {
  await runner?.terminate();
  await fleet?.stop();
  collector?.close();
  rmSync(folder, { recursive: true, force: true });
}, LAST_MS);

const runnerFolder = () => join(fleet.home, "runner");
const agents = () => readdirSync(join(runnerFolder(), "agents"));
const filesOf = (agent: string) => readdirSync(join(runnerFolder(), "agents", agent));

interface AgentFile {
  readonly agent_id: string;
  readonly task_id: string;
  readonly state: string;
}

/** The agents of a task whose end is reported. Recovery gives a task that was not completed to further ones. */
function reported(task: string): string[] {
  const records = agents().flatMap((name) => {
    const path = join(runnerFolder(), "agents", name, "agent.json");
    return existsSync(path) ? [JSON.parse(readFileSync(path, "utf8")) as AgentFile] : [];
  });
  return records
    .filter(({ task_id, state }) => task_id === task && state === "reported")
    .map(({ agent_id }) => agent_id);
}

/** Hands a task to an agent of the runner, whose end is reported when this resolves. Returns its name. */
async function handedOver(task: string): Promise<string> {
  await client.createCheckpoint({ taskId: task, checkpoint: input({ goal: `${CANARY} ${task}` }) });
  await client.task(task).handOff({ toAgentType: "documentation" });
  await expect.poll(() => reported(task).length, SOON).toBeGreaterThan(0);
  return reported(task)[0]!;
}

test(
  "a runner with the key seals the prompts and the output of its agents, and those of an earlier runner",
  async () => {
    runner = await startRunner(fleet, AGENTS);
    const plain = await handedOver("first");
    await runner.terminate();
    const shown = filesWith(runnerFolder(), CANARY).map((path) => path.slice(path.lastIndexOf("/") + 1));
    expect([...new Set(shown)].sort()).toEqual(["output.log", "prompt.md"]);

    runner = await startRunner(fleet, AGENTS, {
      FLEET_SPOOL_KEY: `file:${key}`,
      FLEET_LOG_LEVEL: "debug",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    });
    const sealed = await handedOver("second");
    await expect.poll(() => filesWith(runnerFolder(), CANARY), SOON).toEqual([]);
    for (const agent of [plain, sealed])
      expect(filesOf(agent)).toEqual(expect.arrayContaining(["output.log.enc", "prompt.md.enc"]));
    expect(holdsText(Buffer.from(runner.output()), CANARY), "the log").toBe(false);
    // Spans leave in batches, every few seconds.
    await expect.poll(() => traces.length, SOON).toBeGreaterThan(0);
    expect(holdsText(Buffer.concat(traces), CANARY), "the traces").toBe(false);

    const out = join(folder, "output.log");
    const file = join(runnerFolder(), "agents", sealed, "output.log.enc");
    const opened = await callCli(["export", "open", file, "--decrypt-with", `file:${key}`, "--out", out]);
    expect(opened).toMatchObject({ exit: 0, err: "" });
    const text = readFileSync(out, "utf8");
    expect(text).toContain(`${CANARY} second`);
    expect(text).toContain(`file:${key}\n`);
  },
  LAST_MS,
);
