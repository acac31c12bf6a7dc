/** The examples, and the program in the document of the API, work: real processes on a real fleet. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import type { AgentResult } from "../../../shared/sdk/sdk.ts";
import { type InProcessFleet, openInProcessFleet } from "../../harness/in-process-fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { offer, offeredTask } from "../../harness/records/handoffs.ts";

let writer: InProcessFleet;
const children: ChildProcess[] = [];

beforeAll(async () => {
  writer = await openInProcessFleet();
});
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await writer?.close();
});

function start(agentId: string | undefined, ...args: string[]) {
  const child = spawn(process.execPath, args, {
    cwd: projectRoot,
    env: {
      ...process.env,
      FLEET_URL: writer.nats.url,
      FLEET_SPOOL_DIR: join(writer.nats.dir, "spool"),
      ...(agentId && { FLEET_AGENT_ID: agentId }),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  return { child, ended, output: () => output };
}

const lineCount = (path: string) =>
  readFileSync(join(projectRoot, path), "utf8").trimEnd().split("\n").length;

test("the example agent hands off when its context fills up, and the example orchestrator starts the next one", async () => {
  expect(lineCount("deploy/examples/orchestrator.ts")).toBeLessThan(40);
  const first = start("first", "deploy/examples/agent.ts", "shown");
  expect(await first.ended, first.output()).toBe(0);
  const result = JSON.parse(first.output()) as AgentResult;
  expect(result).toMatchObject({ outcome: "handed_off", taskId: "shown" });

  const command = [process.execPath, "deploy/examples/agent.ts"];
  const orchestrator = start(undefined, "deploy/examples/orchestrator.ts", "implementation", ...command);
  await expect.poll(orchestrator.output, { timeout: 20_000 }).toContain("ready");
  await offer(writer.records.repository, result.handoffId ?? "", { toAgentType: "implementation" });
  await expect.poll(orchestrator.output, { timeout: 20_000 }).toContain('"code":0');
  expect(orchestrator.output()).toContain('"outcome":"completed","taskId":"shown"');
  orchestrator.child.kill("SIGTERM");
  expect(await orchestrator.ended).toBe(0);

  const owner = "orchestrator-implementation";
  expect(await writer.records.repository.task("default", "shown")).toMatchObject({
    state: "completed",
    owner,
    fence: 2,
  });
  expect(
    await writer.records.repository.handoff("default", { handoff_id: result.handoffId ?? "" }),
  ).toMatchObject({ state: "confirmed", accepted_by: owner });
}, 60_000);

/** The programs of a document, in order. */
function programsOf(path: string, language: string): string[] {
  const page = readFileSync(join(projectRoot, path), "utf8");
  const blocks = page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"));
  return [...blocks].map(([, program = ""]) => program);
}

/** Runs a program in the project's folder and returns its output. */
async function runProgram(program: string, language: string): Promise<string> {
  const file = join(projectRoot, `.documented-${process.pid}.${language === "js" ? "mjs" : language}`);
  writeFileSync(file, program);
  try {
    const running = start("documented", file);
    expect(await running.ended, running.output()).toBe(0);
    return running.output();
  } finally {
    rmSync(file);
  }
}

test("the orchestrator without the SDK in API.md takes an offer", async () => {
  const id = await offeredTask(writer.records, "plain", "qa", { prompt: "Test it." });
  const [program = ""] = programsOf("shared/protocol/API.md", "js");
  const output = await runProgram(program, "js");
  expect(output).toContain("start an agent on plain under fence 1, told: Test it.");
  const record = await writer.records.repository.handoff("default", { handoff_id: id });
  expect(record).toMatchObject({ state: "accepted", accepted_by: "tester-1", fence: 1 });
  await expect.poll(async () => (await writer.bus.stream(STREAMS.offers).state()).messages).toBe(0);
}, 60_000);
