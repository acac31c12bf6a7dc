// The tree of commands and how a call ends. Definitions are loaded at once, because help needs them; what a command
// needs to work is loaded by the command alone, so that `fleet --help` and a typing mistake cost nothing.

import { type Argument, Command, CommanderError } from "commander";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { exitCodes } from "../../../shared/runtime/process/startup.ts";
import { addCheckpoint } from "../commands/checkpoints/checkpoint.ts";
import { addCheckpoints } from "../commands/checkpoints/checkpoints.ts";
import { addFinalize } from "../commands/checkpoints/finalize.ts";
import { addLink } from "../commands/checkpoints/link.ts";
import { addResume } from "../commands/checkpoints/resume.ts";
import { addUpdate } from "../commands/checkpoints/update.ts";
import { addFence } from "../commands/handoff/fence.ts";
import { addHandoff } from "../commands/handoff/handoff.ts";
import { addHandoffs } from "../commands/handoff/handoffs.ts";
import { addAgents } from "../commands/operations/agents.ts";
import { addAlerts } from "../commands/operations/alerts.ts";
import { addAudit } from "../commands/operations/audit.ts";
import { addEvents } from "../commands/operations/events.ts";
import { addQueue } from "../commands/operations/queue.ts";
import { addScrub } from "../commands/operations/scrub.ts";
import { addSearchIndex } from "../commands/operations/search-index.ts";
import { addSpool } from "../commands/operations/spool.ts";
import { addStatus } from "../commands/operations/status.ts";
import { addTask } from "../commands/operations/task.ts";
import { addUp } from "../commands/operations/up.ts";
import { addVersion } from "../commands/operations/version.ts";
import { addRecover } from "../commands/recovery/recover.ts";
import { addRecovery } from "../commands/recovery/recovery.ts";
import { addGlobalOptions } from "../config.ts";
import { createActionFactory } from "./action.ts";
import type { ProcessContext } from "./process-context.ts";
import { programNameOf } from "./program-name.ts";
import { Session } from "./session.ts";
import { USAGE_EXIT, UsageError } from "./usage.ts";
import { ownVersion } from "./version.ts";

/** In the order of the help. */
const COMMANDS = [
  addUp,
  addStatus,
  addCheckpoint,
  addUpdate,
  addFinalize,
  addLink,
  addCheckpoints,
  addTask,
  addResume,
  addAgents,
  addFence,
  addHandoff,
  addHandoffs,
  addRecover,
  addRecovery,
  addAlerts,
  addAudit,
  addSearchIndex,
  addScrub,
  addQueue,
  addSpool,
  addEvents,
  addVersion,
] as const;

/** Runs one call; resolves with its exit code. Never rejects. */
export async function run(context: ProcessContext): Promise<number> {
  let exitCode = 0;
  const program = createProgram(context, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(context.argv, { from: "user" });
    return exitCode;
  } catch (error) {
    return endedEarly(error, program, context);
  }
}

export function createProgram(context: ProcessContext, ended: (exitCode: number) => void): Command {
  const program = new Command(programNameOf(context))
    .description("Checkpoint, handoff and recovery for AI agents.")
    .version(ownVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "Show help.")
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp({
      showGlobalOptions: true,
      subcommandTerm: (command) =>
        [command.name(), ...command.registeredArguments.map(argumentTerm)].join(" "),
    })
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
      getOutHelpWidth: () => context.stdout.columns ?? 100,
      getErrHelpWidth: () => context.stderr.columns ?? 100,
      // Said once, in the form that all errors have.
      outputError: () => {},
    });
  const action = createActionFactory(context, ended);
  for (const addCommand of COMMANDS) addCommand(program, action);
  addGlobalOptions(program);
  return program.addHelpText("after", () => closing(program.name()));
}

const argumentTerm = (argument: Argument): string =>
  argument.required ? `<${argument.name()}>` : `[${argument.name()}]`;

function closing(fleet: string): string {
  const meanings: [number, string][] = [
    [0, "Done."],
    [USAGE_EXIT, "USAGE: The call is wrong; nothing was asked."],
    [exitCodes.config, "SETTINGS: A variable of the environment is wrong."],
    ...Object.entries(ERROR_TABLE).map(([code, { exit, meaning }]): [number, string] => [
      exit,
      `${code}: ${meaning}`,
    ]),
  ];
  return [
    "",
    "Start here:",
    `  ${fleet} up`,
    `  ${fleet} checkpoint --task auth --type implementation --phase planning --next "Read the code"`,
    `  ${fleet} checkpoints history auth`,
    "",
    "Ids of checkpoints may be given plain or as chk-<uuid>. Times are UTC.",
    "",
    "Exit codes:",
    ...meanings
      .sort(([a], [b]) => a - b)
      .map(([exit, meaning]) => `  ${String(exit).padStart(2)}  ${meaning}`),
  ].join("\n");
}

async function endedEarly(error: unknown, program: Command, context: ProcessContext): Promise<number> {
  // Help that was asked for is an answer; help instead of an answer is a mistake in the call.
  if (error instanceof CommanderError && error.code === "commander.help") return USAGE_EXIT;
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  const session = new Session(context, {
    json: context.argv.includes("--json"),
    color: !context.argv.includes("--no-color"),
  });
  await session.fail(error instanceof CommanderError ? usageError(error, program, context.argv) : error);
  return session.exitCode;
}

function usageError(error: CommanderError, program: Command, argv: readonly string[]): UsageError {
  const [what = "", meant = ""] = error.message.replace(/^error: /, "").split("\n");
  const suggestion = /^\(Did you mean (.*)\?\)$/.exec(meant)?.[1];
  const help = `see \`${commandNamed(program, argv)} --help\``;
  return new UsageError(
    what,
    suggestion === undefined ? capital(`${help}.`) : `Perhaps you mean ${suggestion}; ${help}.`,
  );
}

/** The longest chain of commands that the call names. */
function commandNamed(program: Command, argv: readonly string[]): string {
  let command = program;
  const names = [program.name()];
  for (const word of argv) {
    const next = command.commands.find((child) => child.name() === word);
    if (next === undefined) continue;
    command = next;
    names.push(word);
  }
  return names.join(" ");
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
