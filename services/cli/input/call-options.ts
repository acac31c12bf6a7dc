// The options of every command that writes a checkpoint.

import { type Command, Option } from "commander";
import type { CommandOptions } from "../../../shared/sdk/delivery/command-delivery.ts";
import type { Session } from "../runtime/session.ts";
import { bareId } from "./id.ts";
import { wholeNumber } from "./number.ts";

/** The help of --command-id, for all commands that take one. */
export const COMMAND_ID = "a UUIDv7 of your choice, so that a retry is applied only once";

export interface CallFlags {
  readonly commandId?: string;
  readonly fence?: number;
  readonly expectedVersion?: number;
  readonly quiet?: boolean;
}

/** `expected`: the condition behind "refuse unless". */
export function addCallOptions(command: Command, expected: string): Command {
  return command
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .addOption(new Option("--expected-version <n>", `refuse unless ${expected}`).argParser(wholeNumber(0)))
    .option("-q, --quiet", "print only the id");
}

export function callOptions(session: Session, flags: CallFlags): CommandOptions {
  const { commandId, fence, expectedVersion } = flags;
  return { ...session.deadline, commandId, fence, expectedVersion };
}
