// Options of every command that changes something.

import { type Command, Option } from "commander";
import type { CommandOptions } from "../../../shared/sdk/delivery/command-delivery.ts";
import type { Session } from "../runtime/session.ts";
import { bareId } from "./id.ts";
import { wholeNumber } from "./number.ts";

export interface CallFlags {
  readonly commandId?: string;
  readonly fence?: number;
  readonly expectedVersion?: number;
  readonly quiet?: boolean;
}

/** `expected`: what the expected version counts. */
export function addCallOptions(command: Command, expected: string): Command {
  return command
    .option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing", bareId)
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .addOption(new Option("--expected-version <n>", `refuse unless ${expected}`).argParser(wholeNumber(0)))
    .option("-q, --quiet", "print only the id");
}

export function callOptions(session: Session, flags: CallFlags): CommandOptions {
  const { commandId, fence, expectedVersion } = flags;
  return { ...session.deadline, commandId, fence, expectedVersion };
}
