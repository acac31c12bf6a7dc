// Ties a command's work to commander: opens a session, runs the work, turns what it throws into an error line and an
// exit code, and closes the connection whatever happened.

import type { Command } from "commander";
import { settingsOf } from "../config.ts";
import type { ProcessContext } from "./process-context.ts";
import { Session } from "./session.ts";

/** What a command does: its session first, then commander's arguments and options. */
// biome-ignore lint/suspicious/noExplicitAny: commander knows the options' types only while it runs.
export type CommandHandler = (session: Session, ...args: any[]) => Promise<void>;
export type ActionFactory = (work: CommandHandler) => (...args: unknown[]) => Promise<void>;

/** `ended` is told each command's exit code. */
export function createActionFactory(
  context: ProcessContext,
  ended: (exitCode: number) => void,
): ActionFactory {
  return (work) =>
    async (...args) => {
      const command = args.at(-1) as Command;
      const session = new Session(context, settingsOf(command));
      try {
        await work(session, ...args.slice(0, -1));
      } catch (error) {
        await session.fail(error, { commandId: command.opts().commandId, taskId: taskOf(command) });
      } finally {
        await session.close();
        ended(session.exitCode);
      }
    };
}

/** The task that the call names, if any. */
function taskOf({ registeredArguments, processedArgs }: Command): string | undefined {
  const place = registeredArguments.findIndex((argument) => argument.name() === "task");
  return place < 0 ? undefined : processedArgs[place];
}

/** Adds examples to a command's help: what is done, then how, as `fleet` is called here. */
export function withExamples(
  command: Command,
  examples: (fleet: string) => Readonly<Record<string, string>>,
): Command {
  return command.addHelpText("after", () => {
    const lines = Object.entries(examples(rootOf(command).name())).flatMap(([what, how]) => [
      `  # ${what}`,
      `  ${how}`,
      "",
    ]);
    return `\nExamples:\n${lines.join("\n").trimEnd()}`;
  });
}

const rootOf = (command: Command): Command => (command.parent === null ? command : rootOf(command.parent));
