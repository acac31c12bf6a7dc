/** The known secrets of an agent are in no session and in no checkpoint: a helper of an earlier session serves it, without its environment. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf, type VendorPayloads } from "./payloads.ts";

const DEADLINE = { deadlineMs: 60_000 };
const TEST_MS = 120_000;
/** In no other text of the test. */
const CANARY = "Quartz";

let fleet: TestFleet;
let hooks: TestHooks;
let payloads: VendorPayloads;
let cwd: string;

beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet?.stop());
beforeEach(async () => {
  hooks = openHooks("claude-code", {
    FLEET_HOME: fleet.home,
    FLEET_AGENT_ID: "agent-1",
    FLEET_TASK: "task-1",
  });
  cwd = join(hooks.folder, "work");
  mkdirSync(cwd);
  payloads = payloadsOf("claude-code", "session-1", { cwd, transcript: join(cwd, "none") });
  // Another session of the user starts the helper.
  const other = payloadsOf("claude-code", "session-0", { cwd: hooks.folder, transcript: join(cwd, "none") });
  await hooks.run(...other.start("startup"));
  await hooks.drained();
});
afterEach(() => hooks.stop());

test("passwords in addresses and lines of the secrets file leave the machine in no text", {
  timeout: TEST_MS,
}, async () => {
  const file = join(hooks.folder, "secrets.txt");
  const [listed, password] = [`juliet-${CANARY}-80-plum`, `delta-${CANARY}-74-plum`];
  writeFileSync(file, `${listed}\n`, { mode: 0o600 });
  const env = { FLEET_SECRETS_FILE: file, DATABASE_URL: `postgres://app:${password}@db/x` };
  // The one in the middle stands where a text is cut.
  const words = `Use ${listed} and ${password}. ${"x ".repeat(490)}${listed} and more`;
  const session = { session_id: "session-1", cwd };
  await hooks.run(...payloads.prompt(words), env);
  const command = { tool_name: "Bash", tool_input: { command: `login ${listed} ${password}` } };
  await hooks.run("PostToolUse", { ...session, ...command, tool_response: { interrupted: false } }, env);
  await hooks.run(...payloads.edit(`${listed}.ts`), env);
  await hooks.run(...payloads.stop(false, words), env);
  const error = `The login with ${listed} or ${password} failed`;
  await hooks.run("StopFailure", { ...session, error }, env);
  await hooks.drained();

  const agent = await fleet.client("agent-1");
  const earlier = { event: "after_model", at: "2026-01-24T10:00:00.000Z", vendor: "claude-code" } as const;
  const { session: kept } = await agent.turnEvent({ sessionId: "session-1", ...earlier, ...DEADLINE });
  const checkpoint = await agent.getLatestCheckpoint("task-1", DEADLINE);
  const { goal, message, commands, files } = kept.activity;
  for (const text of [goal, message, commands[0]?.command, files[0], kept.end_reason])
    expect(text).toContain("[redacted: known secret]");
  expect(JSON.stringify(checkpoint)).toContain("[redacted: known secret]");
  expect(JSON.stringify([kept, checkpoint])).not.toContain(CANARY);
});
