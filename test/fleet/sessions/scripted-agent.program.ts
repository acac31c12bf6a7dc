// An agent program with a terminal and Claude Code's hooks, without a model. Its first turn lasts as long as the fleet demands before it
// asks for a checkpoint; then it compacts its context. It answers every checkpoint message with a checkpoint of its own. What it
// sees is in the file of its first argument.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { projectRoot } from "../../harness/project-root.ts";

const [seen = "", ...options] = process.argv.slice(2);
const { env } = process;
const FLEET = join(projectRoot, "deploy", "local", "fleet.mjs");
const [BEGIN, END] = ["\u001b[200~", "\u001b[201~"];
/** Work after the first tool, with a margin for the times of the events. */
const LONG_MS = LIMITS.turn_min_ms + 500;

const note = (what: string, more: object = {}): void =>
  appendFileSync(seen, `${JSON.stringify({ what, at: Date.now(), pid: process.pid, ...more })}\n`);

const sessionFile = `${seen}.session`;
const isResumed = options.includes("--continue") && existsSync(sessionFile);
const session_id = isResumed ? readFileSync(sessionFile, "utf8") : crypto.randomUUID();
writeFileSync(sessionFile, session_id);

async function output(args: readonly string[], input: string): Promise<string> {
  const child = spawn(process.execPath, [FLEET, ...args], { stdio: ["pipe", "pipe", "pipe"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  child.stderr.resume();
  child.stdin.end(input);
  const [exit] = (await once(child, "close")) as [number];
  note("call", { args: args.slice(0, 3), exit });
  return text;
}

async function hook(event: string, payload: object): Promise<Record<string, unknown>> {
  const common = { session_id, cwd: process.cwd(), hook_event_name: event, transcript_path: "" };
  const text = await output(["hook", "claude-code", event], JSON.stringify({ ...common, ...payload }));
  return text === "" ? {} : JSON.parse(text);
}

const edit = (file_path: string) =>
  hook("PostToolUse", { tool_name: "Edit", tool_input: { file_path }, tool_response: {} });

/** As the message asks. */
async function debrief(words: string): Promise<void> {
  const owner = [
    "--task",
    env.FLEET_TASK ?? "",
    "--fence",
    env.FLEET_FENCE ?? "",
    "--type",
    env.FLEET_AGENT_TYPE ?? "",
  ];
  const content = [
    "--phase",
    "implementing",
    "--goal",
    "Add a login form",
    "--completed",
    words,
    "--pending",
    "Test the form",
    "--next",
    "Run test/form.test.ts",
  ];
  await output(["checkpoint", ...owner, ...content], "");
  await hook("PostToolUse", {
    tool_name: "Bash",
    tool_input: { command: "fleet checkpoint" },
    tool_response: { exit_code: 0 },
  });
}

async function compact(): Promise<void> {
  await hook("PreCompact", { trigger: "auto", custom_instructions: null });
  const { hookSpecificOutput: answer } = await hook("SessionStart", { source: "compact" });
  note("context", { text: (answer as { additionalContext?: string } | undefined)?.additionalContext });
}

async function turn(prompt: string): Promise<void> {
  const isMessage = prompt.includes("[Fleet checkpoint]");
  note(isMessage ? "message" : "prompt", { text: prompt });
  await hook("UserPromptSubmit", { prompt });
  if (isMessage) {
    await debrief(`Wrote the form, after restart ${process.pid}`);
  } else {
    await edit("form.ts");
    await new Promise((resolve) => setTimeout(resolve, LONG_MS));
    await edit("form.test.ts");
  }
  const { decision, reason } = await hook("Stop", {
    stop_hook_active: false,
    last_assistant_message: "Done.",
  });
  note("stopped", { decision: decision ?? null, reason });
  if (decision === "block") {
    await debrief("Wrote the form");
    const again = await hook("Stop", { stop_hook_active: true, last_assistant_message: "Written." });
    note("stopped", { decision: again.decision ?? null });
    await compact();
  }
  note("ready");
  process.stdout.write("\r\n> ");
}

let typed = "";
let turns = Promise.resolve();
process.stdin.setRawMode(true);
await hook("SessionStart", { source: isResumed ? "resume" : "startup" });
note("started", { resumed: isResumed });
process.stdout.write("\u001b[?2004h> ");
process.stdin.on("data", (chunk) => {
  typed += chunk.toString();
  const end = typed.indexOf(END);
  if (end < 0 || !typed.slice(end).includes("\r")) {
    process.stdout.write(".");
    return;
  }
  const prompt = typed.slice(typed.indexOf(BEGIN) + BEGIN.length, end).replaceAll("\r", "\n");
  typed = "";
  process.stdout.write("\r\nworking\r\n");
  turns = turns.then(() => turn(prompt));
});
