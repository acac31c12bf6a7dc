// The tree of commands, and the end of a call. The definitions are loaded at the start, because the help needs them. The
// code that a command runs is loaded by that command alone, so that `fleet --help` and a typing mistake are fast.

import { type Argument, Command, CommanderError } from "commander";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { packageVersion } from "../../../shared/runtime/process/installation.ts";
import { exitCodes } from "../../../shared/runtime/process/startup.ts";
import { addAccess } from "../commands/access/access.ts";
import { addArtifacts } from "../commands/artifacts/artifact.ts";
import { addBackup, addRestore } from "../commands/backup/backup.ts";
import { addCheckpoints } from "../commands/checkpoints/checkpoints.ts";
import { addResume } from "../commands/checkpoints/resume.ts";
import { addDoctor } from "../commands/doctor/doctor.ts";
import { addSign, addSignatures, addSigners } from "../commands/esign/esign.ts";
import { addFence } from "../commands/handoff/fence.ts";
import { addHandoffs } from "../commands/handoff/handoffs.ts";
import { addHook } from "../commands/hooks/hook.ts";
import { addMirror } from "../commands/mirror/mirror.ts";
import { addLock } from "../commands/missions/lock.ts";
import { addMessage } from "../commands/missions/message.ts";
import { addMission } from "../commands/missions/mission.ts";
import { addSortie } from "../commands/missions/sortie.ts";
import { addAgents } from "../commands/operations/agents.ts";
import { addAlerts } from "../commands/operations/alerts.ts";
import { addAudit } from "../commands/operations/audit.ts";
import { addCompletion } from "../commands/operations/completion.ts";
import { addEvents } from "../commands/operations/events.ts";
import { addKeys } from "../commands/operations/keys.ts";
import { addQueue } from "../commands/operations/queue.ts";
import { addScrub } from "../commands/operations/scrub.ts";
import { addSearchIndex } from "../commands/operations/search-index.ts";
import { addStatus } from "../commands/operations/status.ts";
import { addVersion } from "../commands/operations/version.ts";
import { addWatch } from "../commands/operations/watch.ts";
import { addProjectInit } from "../commands/projects/init.ts";
import { addRecovery } from "../commands/recovery/recovery.ts";
import { addMcp } from "../commands/services/mcp.ts";
import { addUp } from "../commands/services/up.ts";
import { addSpool } from "../commands/spool/spool.ts";
import { addCost } from "../commands/tasks/cost.ts";
import { addFork } from "../commands/tasks/fork.ts";
import { addTask } from "../commands/tasks/task.ts";
import { addExport } from "../commands/transfer/export.ts";
import { addImport } from "../commands/transfer/import.ts";
import { addGlobalOptions } from "../config.ts";
import { fullCall } from "../input/spelling.ts";
import { callWith, fullName, suggestionFor } from "../input/suggestion.ts";
import { type ActionFactory, createActionFactory } from "./action.ts";
import type { ProcessContext } from "./process-context.ts";
import { programNameOf } from "./program-name.ts";
import { Session } from "./session.ts";
import { FINDINGS_EXIT, USAGE_EXIT, UsageError } from "./usage.ts";

type AddCommand = (program: Command, action: ActionFactory) => void;

/** The commands, by their headings in the help. The first is the default heading, which the help command has too. */
const COMMANDS: Readonly<Record<string, readonly AddCommand[]>> = {
  Commands: [addUp, addProjectInit, addStatus, addDoctor, addWatch, addVersion, addCompletion],
  Checkpoints: [addCheckpoints, addResume, addArtifacts, addSign, addSignatures],
  "Tasks, agents and handoffs": [
    addTask,
    addFork,
    addCost,
    addAgents,
    addFence,
    addHandoffs,
    addHook,
    addMcp,
  ],
  Missions: [addMission, addSortie, addLock, addMessage],
  "Failures and alerts": [addRecovery, addAlerts],
  "Store and bus": [
    addAccess,
    addAudit,
    addKeys,
    addSigners,
    addScrub,
    addSearchIndex,
    addQueue,
    addSpool,
    addEvents,
    addExport,
    addMirror,
    addImport,
    addBackup,
    addRestore,
  ],
};

/** Runs one call and resolves with its exit code. Never rejects. */
export async function run(context: ProcessContext): Promise<number> {
  let exitCode = 0;
  const argv = fullCall(context.argv);
  const program = createProgram(context, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (error) {
    return failEarly(error, program, { ...context, argv });
  }
}

export function createProgram(context: ProcessContext, onExit: (exitCode: number) => void): Command {
  const program: Command = new Command(programNameOf(context))
    .description("Checkpoint, handoff and recovery for AI agents.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "Show the help of a command.")
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp({
      showGlobalOptions: true,
      // Options of a command between, such as `import`, are not those of its subcommands.
      visibleGlobalOptions: ({ parent }) =>
        parent === null ? [] : program.options.filter(({ hidden }) => !hidden),
      subcommandTerm: (command) =>
        [command.name(), ...command.registeredArguments.map(argumentTerm)].join(" "),
    })
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
      getOutHelpWidth: () => context.stdout.columns ?? 100,
      getErrHelpWidth: () => context.stderr.columns ?? 100,
      // Session.fail prints the error, in the form that all errors have.
      outputError: () => {},
    });
  const action = createActionFactory(context, onExit);
  for (const [heading, commands] of Object.entries(COMMANDS)) {
    program.commandsGroup(`${heading}:`);
    for (const addCommand of commands) addCommand(program, action);
  }
  addGlobalOptions(program);
  return program.addHelpText("after", () => helpEnd(program.name()));
}

const argumentTerm = (argument: Argument): string =>
  argument.required ? `<${argument.name()}>` : `[${argument.name()}]`;

function helpEnd(fleet: string): string {
  const meanings: [number, string][] = [
    [0, "Done."],
    [FINDINGS_EXIT, "FINDINGS: A check has found a problem."],
    [USAGE_EXIT, "USAGE: The call is wrong. The fleet was not asked."],
    [exitCodes.cannotCreate, "OUTPUT: The output could not be written."],
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
    `  ${fleet} checkpoint history auth`,
    "",
    "A checkpoint id may be written with or without chk-. Times are UTC.",
    "",
    "Exit codes:",
    ...meanings
      .sort(([a], [b]) => a - b)
      .map(([exit, meaning]) => `  ${String(exit).padStart(2)}  ${meaning}`),
  ].join("\n");
}

/** Ends a call that commander stopped before its command ran. */
async function failEarly(error: unknown, program: Command, context: ProcessContext): Promise<number> {
  // Requested help is an answer. Help that commander prints because the subcommand is missing is a usage error.
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
  const command = commandOf(program, argv);
  const [word = ""] = command.args;
  const suggestion =
    error.code === "commander.unknownCommand"
      ? suggestionFor(command)
      : (/^\(Did you mean (.*)\?\)$/.exec(meant)?.[1] ?? callWith(word, command));
  const help = `${greedyOption(error, command)}See \`${fullName(command)} --help\`.`;
  const text = what.replace(/(unknown command '[^']*').*/, "$1");
  return new UsageError(text, suggestion === undefined ? help : `Did you mean ${suggestion}? ${help}`);
}

/** An option that takes several words also takes an argument that was meant for the command. */
function greedyOption({ code }: CommanderError, command: Command): string {
  if (code !== "commander.missingArgument") return "";
  const greedy = command.options.find(
    (option) => option.variadic && command.getOptionValue(option.attributeName()) !== undefined,
  );
  return greedy === undefined
    ? ""
    : `${greedy.long} takes all words after it: write the argument before it. `;
}

/** The end of the longest chain of subcommands in the call. */
function commandOf(program: Command, argv: readonly string[]): Command {
  let command = program;
  for (const word of argv) command = command.commands.find((child) => child.name() === word) ?? command;
  return command;
}
