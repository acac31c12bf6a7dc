// The manual of the command line: it has an example of every command, its examples are valid calls, and it lists every
// exit code.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { CHECKS } from "../../../services/cli/commands/doctor/check-outcome.ts";
import { fullCall } from "../../../services/cli/input/spelling.ts";
import { createProgram } from "../../../services/cli/runtime/program.ts";
import { FINDINGS_EXIT, USAGE_EXIT } from "../../../services/cli/runtime/usage.ts";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { exitCodes } from "../../../shared/runtime/process/startup.ts";
import { projectRoot } from "../../harness/project-root.ts";

const manual = readFileSync(join(projectRoot, "services/cli/README.md"), "utf8");
const output = { write: () => {} };
const streams = { stdin: process.stdin, inputKind: "nothing", stdout: output, stderr: output } as const;
const context = { argv: [], env: {}, ...streams, now: () => 0 };
const program = createProgram(context, () => {});

const examples = [...manual.matchAll(/^```sh\n([\s\S]*?)^```/gm)]
  .flatMap(([, block = ""]) => block.replaceAll("\\\n", " ").split("\n"))
  .flatMap((line) => /\bfleet ((?:[^#|)"']|"[^"]*"|'[^']*')*)/.exec(line)?.[1] ?? [])
  .map((call) =>
    fullCall(call.match(/"[^"]*"|'[^']*'|\S+/g) ?? []).map((word) =>
      word.replace(/^["']|["']$/g, "").replace("$FENCE", "1"),
    ),
  );

/** The command of a call and its further words. */
function commandOf(words: readonly string[], from: Command = program): [Command, readonly string[]] {
  const next = from.commands.find((child) => child.name() === words[0]);
  return next === undefined ? [from, words] : commandOf(words.slice(1), next);
}

const pathOf = (command: Command): string =>
  command.parent === null ? "" : `${pathOf(command.parent)} ${command.name()}`.trim();

/** Every command that does something of its own, by its path. */
const runnable = (command: Command): string[] => [
  ...(command.commands.length === 0 || pathOf(command) === "scrub" ? [pathOf(command)] : []),
  ...command.commands.flatMap(runnable),
];

test("every command has an example", () => {
  const shown = new Set(examples.map((words) => pathOf(commandOf(words)[0])));
  expect(runnable(program).filter((path) => !shown.has(path))).toEqual([]);
});

test.each(examples.map((words) => [words.join(" "), words] as const))("fleet %s", (_, words) => {
  const [command, rest] = commandOf(words);
  const { operands, unknown } = command.parseOptions(rest.filter((word) => word !== "||" && word !== "exit"));
  expect(unknown).toEqual([]);
  const required = command.registeredArguments.filter((argument) => argument.required);
  expect(operands.length).toBeGreaterThanOrEqual(required.length);
});

test("every check of the doctor is listed", () => {
  const listed = [...manual.matchAll(/^\| `(\w+\.\w+)` +\|/gm)].map(([, code]) => code);
  expect(listed).toEqual(Object.keys(CHECKS));
});

test("every exit code is listed with the names of its errors", () => {
  const rows = new Map(
    [...manual.matchAll(/^\| (\d+) +\| (.*?) *\|$/gm)].map(([, code, text]) => [Number(code), text]),
  );
  const known = [
    ...Object.entries(ERROR_TABLE).map(([name, { exit }]) => [name, exit] as const),
    ["USAGE", USAGE_EXIT] as const,
    ["SETTINGS", exitCodes.config] as const,
    ["OUTPUT", exitCodes.cannotCreate] as const,
    ["FINDINGS", FINDINGS_EXIT] as const,
  ];
  for (const [name, exit] of known) expect(rows.get(exit), name).toContain(name);
  expect([...rows.keys()].filter((code) => !known.some(([, exit]) => exit === code))).toEqual([0]);
});
