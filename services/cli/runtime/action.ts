// Connects a command's handler to commander: opens a session, runs the handler, turns an exception into an error line
// and an exit code, and always closes the connection.

import type { Command } from "commander";
import { settingsOf } from "../config.ts";
import { withWholeIds } from "../input/elided-id.ts";
import type { ProcessContext } from "./process-context.ts";
import { Session } from "./session.ts";

/** The body of a command. It receives its session, then commander's arguments and options. */
// biome-ignore lint/suspicious/noExplicitAny: commander knows the options' types only while it runs.
export type CommandHandler = (session: Session, ...args: any[]) => Promise<void>;
export type ActionFactory = (handler: CommandHandler) => (...args: unknown[]) => Promise<void>;

/** `onExit` receives the exit code of each command. */
export function createActionFactory(
  context: ProcessContext,
  onExit: (exitCode: number) => void,
): ActionFactory {
  return (handler) =>
    async (...args) => {
      const command = args.at(-1) as Command;
      const session = new Session(context, settingsOf(command));
      try {
        await handler(session, ...(await withWholeIds(command, args.slice(0, -1), () => session.client())));
      } catch (error) {
        await session.fail(error, { commandId: command.opts().commandId, taskId: taskOf(command) });
      } finally {
        await session.close();
        onExit(session.exitCode);
      }
    };
}

/** The task in the arguments of the call, if any. */
function taskOf({ registeredArguments, processedArgs }: Command): string | undefined {
  const place = registeredArguments.findIndex((argument) => argument.name() === "task");
  return place < 0 ? undefined : processedArgs[place];
}

/** Adds examples to a command's help. Each has a title and a call; `fleet` is the name of the program here. */
export function withExamples(
  command: Command,
  examples: (fleet: string) => Readonly<Record<string, string>>,
): Command {
  return command.addHelpText("after", () => {
    const lines = Object.entries(examples(rootOf(command).name())).flatMap(([title, call]) => [
      `  # ${title}`,
      `  ${call}`,
      "",
    ]);
    return `\nExamples:\n${lines.join("\n").trimEnd()}`;
  });
}

const rootOf = (command: Command): Command => (command.parent === null ? command : rootOf(command.parent));
