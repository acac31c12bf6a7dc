// `fleet hook`: the hooks of agent programs. `fleet hook <vendor> <event>` itself is in deploy/hook, because it runs at every tool call
// of an agent.

import { Argument, type Command } from "commander";
import { HOOK_VENDOR_NAMES, type HookVendorName } from "../../../../shared/sdk/hooks/vendors.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { FINDINGS_EXIT } from "../../runtime/usage.ts";
import type { HookChange, HookCheck } from "./settings-files.ts";

interface Flags {
  readonly project?: boolean;
  readonly dryRun?: boolean;
}

const vendorArgument = () => new Argument("<vendor>", "the agent program").choices(HOOK_VENDOR_NAMES);
const PROJECT = "the settings of the project in this folder, instead of the user's own";

export function addHook(program: Command, action: ActionFactory): void {
  const group = program
    .command("hook")
    .summary("Connect Claude Code, Codex and Gemini CLI by their hooks.")
    .description(
      "Connect agent programs by their hooks: their work is saved by itself, they are asked for a checkpoint at the end of a turn, and a new context begins with the work of the old one.\n" +
        "The installed hooks call `fleet hook <vendor> <event>` with the program's own JSON on standard input. Such a call always ends with 0; problems are in hook.log, in the folder FLEET_HOOK_DIR.",
    );
  addInstall(group, action);
  addRemove(group, action);
  addDoctor(group, action);
  const message = group
    .command("message")
    .summary("Print the message that asks an agent for a checkpoint.")
    .description(
      "Print the message that asks an agent for a checkpoint at the end of a turn. To change it, write it to a file, edit it, and name the file in FLEET_HOOK_MESSAGE.",
    )
    .action(action(showMessage));
  withExamples(message, (fleet) => ({ "A copy to edit": `${fleet} hook message > checkpoint-message.md` }));
}

function addInstall(group: Command, action: ActionFactory): void {
  const command = group
    .command("install")
    .summary("Add Fleet's hooks to the settings of an agent program.")
    .description(
      "Add Fleet's hooks to the settings of an agent program, and show the difference. Other entries stay. A second call changes nothing; after an update of Fleet it replaces the entries that are out of date.",
    )
    .addArgument(vendorArgument())
    .option("--project", PROJECT)
    .option("--dry-run", "show the difference, and write nothing")
    .action(action(install));
  withExamples(command, (fleet) => ({
    "For all projects of this user": `${fleet} hook install claude-code`,
    "For this project alone": `${fleet} hook install codex --project`,
    "What would change": `${fleet} hook install gemini --dry-run`,
  }));
}

function addRemove(group: Command, action: ActionFactory): void {
  const command = group
    .command("remove")
    .summary("Remove Fleet's hooks from the settings of an agent program.")
    .description("Remove Fleet's hooks from the settings of an agent program, and show the difference.")
    .addArgument(vendorArgument())
    .option("--project", PROJECT)
    .option("--dry-run", "show the difference, and write nothing")
    .action(action(remove));
  withExamples(command, (fleet) => ({ "Without a trace": `${fleet} hook remove claude-code` }));
}

function addDoctor(group: Command, action: ActionFactory): void {
  const command = group
    .command("doctor")
    .summary("Check the hooks of an agent program.")
    .description(
      "Check that the hooks of an agent program are installed, up to date, and find their program. Ends with 1 if not.",
    )
    .addArgument(vendorArgument())
    .option("--project", PROJECT)
    .action(action(doctor));
  withExamples(command, (fleet) => ({ "After an update of Fleet": `${fleet} hook doctor claude-code` }));
}

async function install(session: Session, vendor: HookVendorName, flags: Flags): Promise<void> {
  const { changeHooks } = await import("./settings-files.ts");
  await showChange(session, changeHooks("install", vendor, placeOf(session, flags)), flags);
}

async function remove(session: Session, vendor: HookVendorName, flags: Flags): Promise<void> {
  const { changeHooks } = await import("./settings-files.ts");
  await showChange(session, changeHooks("remove", vendor, placeOf(session, flags)), flags);
}

function placeOf({ context: { env } }: Session, { project = false, dryRun = false }: Flags) {
  return { env, project, dryRun };
}

async function showChange(session: Session, change: HookChange, { dryRun }: Flags): Promise<void> {
  const { path, difference, changed } = change;
  await session.show({ ...change, written: changed && dryRun !== true }, () => {
    if (!changed) return `${path} is as it should be; nothing was changed.`;
    const { colors } = session.view;
    const lines = difference.map((line) => {
      if (line.startsWith("+")) return colors.green(line);
      return line.startsWith("-") ? colors.red(line) : line;
    });
    const end =
      dryRun === true
        ? "Nothing was written."
        : `Written to ${path}. Sessions that run now keep their old hooks: restart them.`;
    return [...lines, "", end].join("\n");
  });
}

async function doctor(session: Session, vendor: HookVendorName, flags: Flags): Promise<void> {
  const { checkHooks } = await import("./settings-files.ts");
  const check: HookCheck = checkHooks(vendor, placeOf(session, flags));
  const isSound = check.problems.length === 0;
  await session.show({ ...check, sound: isSound }, () => {
    const { colors } = session.view;
    const states = check.hooks.map(({ event, state }) =>
      state === "installed"
        ? `  ${colors.green("installed")}  ${event}`
        : `  ${colors.red(state.padEnd(9))}  ${event}`,
    );
    const next = isSound
      ? "The hooks are installed and up to date."
      : [
          ...check.problems,
          `Run \`${session.programName} hook install ${vendor}${flags.project ? " --project" : ""}\`.`,
        ].join("\n");
    return [check.path, ...states, "", next].join("\n");
  });
  if (!isSound) session.exitCode = FINDINGS_EXIT;
}

async function showMessage(session: Session): Promise<void> {
  const { CHECKPOINT_MESSAGE } = await import("../../../../shared/prompts/checkpoint-message.ts");
  await session.show({ message: CHECKPOINT_MESSAGE }, () => CHECKPOINT_MESSAGE);
}
