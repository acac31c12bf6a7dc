// The words that may follow each command: what the completion of a shell suggests.

import type { Command } from "commander";

export interface Word {
  readonly text: string;
  readonly description: string;
}

export interface CommandWords {
  /** The names of the command and its groups, such as `checkpoint create`; "" is the program itself. */
  readonly path: string;
  readonly commands: readonly Word[];
  /** Long options, with their dashes. */
  readonly options: readonly Word[];
}

/** The program first, each group before its commands. */
export function commandWords(program: Command): CommandWords[] {
  const global = optionsOf(program);
  const walk = (command: Command, path: string): CommandWords[] => {
    const shown = command.createHelp().visibleCommands(command);
    const own = command === program ? [] : optionsOf(command);
    const commands = shown.map((one) => ({
      text: one.name(),
      description: firstSentence(one.summary() || one.description()),
    }));
    // `help` lists commands that are listed already.
    const nested = shown.filter((one) => one.name() !== "help");
    return [
      { path, commands, options: [...own, ...global] },
      ...nested.flatMap((one) => walk(one, path === "" ? one.name() : `${path} ${one.name()}`)),
    ];
  };
  return walk(program, "");
}

const optionsOf = (command: Command): Word[] =>
  command
    .createHelp()
    .visibleOptions(command)
    .flatMap(({ long, description }) =>
      long === undefined || long === null ? [] : [{ text: long, description: firstSentence(description) }],
    );

/** One line without a full stop at its end. */
function firstSentence(text: string): string {
  const [line = ""] = text.split("\n");
  return line.replace(/(?:\. .*|\.)$/, "");
}
