#!/usr/bin/env node
// The `fleet` command. A hook runs at every tool call of an agent, so it loads nothing of the command line program.

const [command, vendor, event] = process.argv.slice(2);

if (command === "hook" && /^(claude-code|codex|gemini)$/.test(vendor ?? "") && /^[A-Z]/.test(event ?? "")) {
  const { runHook } = await import("../hook/hook.mjs");
  await runHook(process.argv.slice(3));
} else {
  const { runCommand } = await import("./command.mjs");
  await runCommand();
}
