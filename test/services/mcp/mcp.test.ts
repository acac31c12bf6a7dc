// The MCP server with the official client: the real process over standard input and output, and over HTTP, on a real fleet.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";

vi.setConfig({ testTimeout: 60_000 });

const FLEET = join(projectRoot, "deploy", "local", "fleet.mjs");
const DEADLINE = { deadlineMs: 20_000 };
let fleet: TestFleet;
let reader: FleetClient;
const open: Client[] = [];

beforeAll(async () => {
  fleet = await startFleet();
  reader = await fleet.client("orchestrator-1", "default", { role: "orchestrator" });
});
afterEach(async () => {
  for (const client of open.splice(0)) await client.close();
});
afterAll(() => fleet?.stop());

const environment = (env: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env.PATH ?? "",
  HOME: process.env.HOME ?? "/",
  FLEET_HOME: fleet.home,
  ...env,
});

async function connectedClient(words: string[], env: Record<string, string> = {}) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [FLEET, "mcp", ...words],
    env: environment(env),
    stderr: "ignore",
  });
  const client = new Client({ name: "test", version: "1" });
  await client.connect(transport as never);
  open.push(client);
  return { client, transport };
}

async function call(client: Client, name: string, args: object = {}) {
  const { content, isError } = await client.callTool({ name, arguments: { ...args } }, undefined, {
    timeout: 30_000,
  });
  const [{ text = "" } = {}] = content as { text?: string }[];
  return { isError: isError === true, text, value: () => JSON.parse(text) };
}

const WORK = {
  summary: {
    goal: "Add a login form",
    completed: ["Wrote login.ts"],
    pending: ["Test login.ts"],
    decisions: ["One file because it is small"],
  },
  resumePointer: { nextAction: "Run test/login.test.ts", currentContext: "login.ts", phase: "testing" },
};

describe("over standard input and output", () => {
  test("lists its tools, resources and prompts", async () => {
    const { client } = await connectedClient(["--task", "listed"]);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      "checkpoint",
      "resume",
      "handoff",
      "search",
      "history",
      "report_progress",
    ]);
    for (const tool of tools)
      expect(tool.inputSchema).toMatchObject({ type: "object", additionalProperties: false });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual([
      "resume",
      "checkpoint",
      "handoff",
    ]);
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(4);
  });

  test("saves a checkpoint, reports progress, lists and finds it", async () => {
    const { client } = await connectedClient(["--task", "saved"], { FLEET_AGENT_ID: "coder-1" });
    const { value } = await call(client, "checkpoint", { ...WORK, tokensUsed: 1_200 });
    expect(value()).toMatchObject({ taskId: "saved", agentId: "coder-1", outcome: "committed" });
    expect(value().checkpointId).toMatch(/^chk-/);
    const { checkpointId } = value();
    const progress = await call(client, "report_progress", { step: "Runs the tests", percent: 60 });
    expect(progress.value()).toEqual({ taskId: "saved", checkpointId, step: "Runs the tests", percent: 60 });
    const latest = await reader.getLatestCheckpoint("saved", DEADLINE);
    expect(latest?.execution_state).toMatchObject({
      goal: "Add a login form",
      progress_percent: 60,
      resume_pointer: { next_action: "Run test/login.test.ts", current_context: "login.ts" },
      current_step: { description: "Runs the tests" },
    });
    const history = (await call(client, "history")).value();
    expect(history.checkpoints.map((one: { checkpointId: string }) => one.checkpointId)).toEqual([
      checkpointId,
    ]);
    await expect
      .poll(async () => (await call(client, "search", { agentId: "coder-1" })).value().checkpoints.length, {
        timeout: 20_000,
      })
      .toBe(1);
    const prompt = await client.readResource({ uri: "fleet://tasks/saved/prompt" });
    expect(JSON.stringify(prompt.contents)).toContain("Add a login form");
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain("fleet://tasks/saved");
    const { messages } = await client.getPrompt({ name: "resume", arguments: { task: "saved" } });
    expect(JSON.stringify(messages)).toContain("Run test/login.test.ts");
  });

  test("keeps the step of a checkpoint without a resume pointer, and not the partial work before it", async () => {
    const { client } = await connectedClient(["--task", "bare"], { FLEET_AGENT_ID: "bare-agent" });
    const owner = await fleet.client("bare-agent");
    const task = await owner.takeTask("bare", { expectedFence: 0, ...DEADLINE });
    await task.checkpoint(
      {
        metadata: { agent_type: "qa" },
        execution_state: {
          phase: "testing",
          pending_items: ["run the tests"],
          current_step: { description: "Writes the tests", partial_work: "two of five" },
        },
      },
      DEADLINE,
    );
    expect((await call(client, "report_progress", { step: "Runs the tests" })).isError).toBe(false);
    const { current_step } = (await reader.getLatestCheckpoint("bare", DEADLINE))!.execution_state;
    expect(current_step).toEqual({ description: "Runs the tests", started_at: expect.any(String) });
    const own = await call(client, "resume");
    expect(own.text).toContain("You continue your own work.");
    expect(own.text).toContain("Runs the tests");
    const other = await connectedClient([], { FLEET_AGENT_ID: "bare-other" });
    const taken = await call(other.client, "resume", { taskId: "bare", takeOver: true });
    expect(taken.text).toContain("You take over a task from another agent.");
  });

  test("refuses wrong arguments with every wrong field, and a next action that says nothing", async () => {
    const { client } = await connectedClient(["--task", "refused"]);
    const wrong = await call(client, "checkpoint", { summary: { goal: "" }, resumePointer: {} });
    expect(wrong.isError).toBe(true);
    expect(wrong.value().error.code).toBe("INVALID");
    expect(wrong.value().error.fields.map(({ path }: { path: string }) => path)).toContain(
      "resumePointer.nextAction",
    );
    const vague = await call(client, "checkpoint", {
      ...WORK,
      resumePointer: { nextAction: "Continue working" },
    });
    expect(vague.text).toContain("for example");
    expect((await call(client, "search")).value().error.fields[0].path).toBe("text");
    expect((await call(client, "unknown")).value().error.code).toBe("INVALID");
    expect((await call(client, "resume", { taskId: "never" })).value().error.code).toBe("NOT_FOUND");
    await expect(client.readResource({ uri: "fleet://tasks/a/b/c/d" })).rejects.toThrow();
    expect(await reader.getTask("refused", DEADLINE)).toBeNull();
  });

  test("after a kill in the middle of a task another agent resumes it, and the first can no longer write", async () => {
    const first = await connectedClient(["--task", "killed"], { FLEET_AGENT_ID: "first" });
    await call(first.client, "checkpoint", WORK);
    const superseded = await connectedClient(["--task", "killed"], { FLEET_AGENT_ID: "first" });
    await call(superseded.client, "checkpoint", WORK);
    process.kill(first.transport.pid ?? 0, "SIGKILL");
    const { client } = await connectedClient([], { FLEET_AGENT_ID: "second" });
    const refused = await call(client, "resume", { taskId: "killed" });
    expect(refused.value().error).toMatchObject({ code: "CONFLICT", details: { owner: "first" } });
    const resumed = await call(client, "resume", { taskId: "killed", takeOver: true });
    expect(resumed.text).toContain("Run test/login.test.ts");
    expect((await call(client, "checkpoint", WORK)).value()).toMatchObject({
      taskId: "killed",
      agentId: "second",
    });
    const late = await call(superseded.client, "checkpoint", WORK);
    expect(late.isError).toBe(true);
    expect(late.value().error.code).toBe("FENCED");
  });

  test("tools that a model calls at the same time take its task once", async () => {
    const { client } = await connectedClient(["--task", "parallel"], { FLEET_AGENT_ID: "parallel-1" });
    const calls = await Promise.all(Array.from({ length: 4 }, () => call(client, "checkpoint", WORK)));
    expect(calls.map(({ isError }) => isError)).toEqual([false, false, false, false]);
    expect((await reader.getTask("parallel", DEADLINE))?.fence).toBe(1);
  });

  test("hands its task off, and releases a task when its client ends", async () => {
    const { client } = await connectedClient(["--task", "handed"], { FLEET_AGENT_ID: "giver" });
    await call(client, "checkpoint", WORK);
    const { value } = await call(client, "handoff", { reason: "the context is full", toAgentType: "qa" });
    expect(await reader.handoff(value().handoffId, DEADLINE)).toMatchObject({
      reason: "the context is full",
      from_agent: "giver",
    });
    const other = await connectedClient(["--task", "released"], { FLEET_AGENT_ID: "other" });
    await call(other.client, "checkpoint", WORK);
    expect((await reader.getTask("released", DEADLINE))?.owner).toBe("other");
    await other.client.close();
    await expect
      .poll(async () => (await reader.getTask("released", DEADLINE))?.owner, { timeout: 20_000 })
      .toBeNull();
  });
});

describe("over HTTP", () => {
  let url: URL;
  let token: string;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    const child = spawn(process.execPath, [FLEET, "mcp", "--task", "http", "--http", "127.0.0.1:0"], {
      env: environment({ FLEET_AGENT_ID: "http-agent" }),
      stdio: ["ignore", "ignore", "pipe"],
    });
    const file = await new Promise<string>((resolve, reject) => {
      let text = "";
      child.stderr.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        const line = text.split("\n").find((one) => one.includes("MCP over HTTP open"));
        if (line === undefined) return;
        url = new URL(JSON.parse(line).url);
        resolve(JSON.parse(line).token_file);
      });
      child.once("exit", () => reject(new Error(`the MCP server ended: ${text}`)));
    });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    ({ token } = JSON.parse(readFileSync(file, "utf8")));
    stop = async () => {
      child.kill("SIGTERM");
      await once(child, "exit");
    };
  });
  afterAll(() => stop?.());

  test("serves a client with the token", async () => {
    const client = new Client({ name: "test", version: "1" });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
    open.push(client);
    expect((await call(client, "checkpoint", WORK)).value()).toMatchObject({
      taskId: "http",
      agentId: "http-agent",
    });
  });

  test.each([
    ["without the token", {}, 401],
    ["with another token", { authorization: "Bearer other" }, 401],
    ["from a page", { origin: "https://example.org" }, 403],
    ["under another name", { host: "example.org" }, 403],
  ])("refuses a request %s", async (_, headers: Record<string, string>, status) => {
    const response = await new Promise<number | undefined>((resolve, reject) => {
      const sent = request(url, { method: "POST", headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.on("error", reject).end("{}");
    });
    expect(response).toBe(status);
  });

  const posted = (body: string, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: "POST",
      body,
      headers: {
        ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...{ accept: "application/json, text/event-stream", ...headers },
      },
    });
  const INITIALIZE = JSON.stringify({
    ...{ jsonrpc: "2.0", id: 1, method: "initialize" },
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
  });
  const LIST = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/list" });

  test("sessions that no client ends make room for others", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 105; n += 1) {
      const answer = await posted(INITIALIZE);
      await answer.text();
      expect(answer.status).toBe(200);
      ids.push(answer.headers.get("mcp-session-id") ?? "");
    }
    expect((await posted(LIST, { "mcp-session-id": ids.at(-1)! })).status).toBe(200);
    expect((await posted(LIST, { "mcp-session-id": ids[0]! })).status).toBe(404);
  });

  test("a body without a length is refused at the same size as one with it", async () => {
    const status = await new Promise<number | undefined>((resolve) => {
      const headers = {
        ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...{ accept: "application/json, text/event-stream", "transfer-encoding": "chunked" },
      };
      const sent = request(url, { method: "POST", headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      // A connection that the server closes while it still receives is a refusal too.
      sent.on("error", () => resolve(413));
      for (let n = 0; n < 12; n += 1) sent.write("x".repeat(1_000_000));
      sent.end();
    });
    expect(status).toBe(413);
    expect((await posted(INITIALIZE)).status).toBe(200);
  });

  test.each(["0.0.0.0:4290", "example.org:1", "127.0.0.1:99999", "x"])(
    "does not start at %s",
    async (address) => {
      const child = spawn(process.execPath, [FLEET, "mcp", "--http", address], {
        env: environment(),
        stdio: "ignore",
      });
      expect((await once(child, "exit"))[0]).toBe(78);
    },
  );
});
