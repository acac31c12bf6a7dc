/** The agent and its user get a report of the secrets that were removed from a session: its places and rules, and no value. */
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { HookVendorName } from "../../../shared/sdk/hooks/vendors.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { openHooks, type TestHooks } from "./hook-process.ts";
import { payloadsOf } from "./payloads.ts";

const TEST_MS = 120_000;
/** In no other text of the test. */
const CANARY = "Quartz";
const TOKEN = `ghp_${CANARY}${"a1B2c3".repeat(5)}`;
const OWN = { MY_API_TOKEN: `delta-${CANARY}-74-plum` };

let fleet: TestFleet;
let hooks: TestHooks;
let tests = 0;

beforeAll(async () => {
  fleet = await startFleet();
});
afterAll(() => fleet?.stop());
afterEach(() => hooks.stop());

/** A helper runs from here on: the hook that starts it gets no answer, unless a session begins. */
async function open(vendor: HookVendorName) {
  tests += 1;
  hooks = openHooks(vendor, {
    FLEET_HOME: fleet.home,
    FLEET_AGENT_ID: `agent-${tests}`,
    FLEET_TASK: `task-${tests}`,
  });
  const payloads = payloadsOf(vendor, `session-${tests}`, {
    cwd: hooks.folder,
    transcript: join(hooks.folder, "none"),
  });
  await hooks.run(...payloads.start("startup"));
  await hooks.drained();
  return payloads;
}

test("at the end of a turn without a request the program shows the report to its user, and the log has it", {
  timeout: TEST_MS,
}, async () => {
  const payloads = await open("claude-code");
  await hooks.run(...payloads.prompt(`Use ${TOKEN} and ${OWN.MY_API_TOKEN}, not [redacted: by me]`), OWN);
  const [event, { duration_ms: _, ...tool }] = payloads.test(`login ${OWN.MY_API_TOKEN}`);
  // The recorded tool took longer than this turn has lasted.
  await hooks.run(event, tool, OWN);
  const { out } = await hooks.run(...payloads.stop(false, "Done."), OWN);
  const { systemMessage, ...others } = JSON.parse(out);
  expect(others).toEqual({});
  expect(systemMessage).toContain("(prompt: 1 GitHub token, 1 known secret; commands: 1 known secret)");
  expect(systemMessage).not.toContain(CANARY);
  // The next turn has none.
  await hooks.run(...payloads.prompt("Thank you"));
  expect((await hooks.run(...payloads.stop(false, "Done."))).out).toBe("");
  // These marks came with the prompt and with the path: the log does not name them.
  await hooks.run(...payloads.prompt("Why is it [redacted: GitHub token]?"));
  await hooks.run(...payloads.edit("[redacted: known secret].ts"));
  await hooks.drained();
  const logged = hooks.log().filter(({ msg }) => /^marks stand in the place/.test(String(msg)));
  expect(logged.map(({ event, redacted }) => [event, redacted])).toEqual([
    ["user_prompt_submit", ["prompt: 1 GitHub token, 1 known secret"]],
    ["after_model", ["commands: 1 known secret"]],
  ]);
  const warned = hooks.log().flatMap(({ details }) => (details as { redacted?: string[] })?.redacted ?? []);
  expect(warned).toContain("/prompt (GitHub token)");
  expect(warned.filter((part) => !part.startsWith("/"))).toEqual([]);
  expect(JSON.stringify(hooks.log())).not.toContain(CANARY);
});

test("the message that asks for a checkpoint has the report, also after a restart of the helper", {
  timeout: TEST_MS,
}, async () => {
  const payloads = await open("codex");
  hooks.keep(...payloads.prompt(`Use ${TOKEN}`), 90);
  hooks.keep(...payloads.edit("login.ts"), 80);
  await hooks.run(...payloads.edit("login.ts"));
  await hooks.drained();
  hooks.killHelpers();
  await hooks.killedEnded();
  await hooks.run(...payloads.start("startup"));
  const { out } = await hooks.run(...payloads.stop(false, "Done."));
  const { reason } = JSON.parse(out);
  expect(reason).toContain("[Fleet checkpoint]");
  expect(reason).toContain("(prompt: 1 GitHub token)");
  expect(reason).not.toContain(CANARY);
});

test("a program that waits at a prompt gives its model the report with it", {
  timeout: TEST_MS,
}, async () => {
  const payloads = await open("gemini");
  const { out } = await hooks.run(...payloads.prompt(`Use ${TOKEN}`));
  const { hookSpecificOutput } = JSON.parse(out);
  expect(hookSpecificOutput.hookEventName).toBe("BeforeAgent");
  expect(hookSpecificOutput.additionalContext).toContain("(prompt: 1 GitHub token)");
  expect(hookSpecificOutput.additionalContext).not.toContain(CANARY);
  expect((await hooks.run(...payloads.prompt("Thank you"))).out).toBe("");
});
