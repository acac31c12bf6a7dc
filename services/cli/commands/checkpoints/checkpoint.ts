// `fleet checkpoint`: writes a checkpoint, from options, from a document, or from both.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { addCallOptions, type CallFlags, callOptions } from "../../input/call-options.ts";
import {
  type CheckpointDocument,
  type CheckpointFlags,
  checkpointDocument,
  missingOptions,
  objectOf,
  textOf,
} from "../../input/checkpoint.ts";
import type { JsonObject } from "../../input/document.ts";
import { bareId, collectIds } from "../../input/id.ts";
import { collectLabel } from "../../input/label.ts";
import { percent, wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Flags extends CheckpointFlags, CallFlags {
  readonly file?: string;
  /** true: the folder of the call. */
  readonly workspace?: string | true;
}

export function addCheckpoint(program: Command, action: ActionFactory): void {
  const command = program
    .command("checkpoint")
    .summary("Write a checkpoint of a task.")
    .description(
      "Write a checkpoint of a task: what was done, what was decided, what comes next.\n" +
        "It says everything anew: what it leaves out is not taken over from the checkpoint before; `update` changes one.\n" +
        "A whole checkpoint may come as JSON, with --file or through a pipe; options win over it.",
    )
    .option("-t, --task <id>", "the task")
    .option("--type <type>", "type of the agent: architecture, implementation, qa, documentation, …")
    .option("--phase <phase>", "planning, implementing, testing, reviewing, complete or handoff")
    .option("--goal <text>", "what the task is for")
    .option("--completed <title...>", "work that is done")
    .option("--pending <title...>", "work that remains")
    .option("--blocked <title...>", 'work that cannot go on: "Deploy because the key is missing"')
    .option("--decision <text...>", 'what was decided: "LMDB because it is embedded"')
    .option("--next <action>", "the exact next action for whoever goes on")
    .option("--note <text>", "why this checkpoint is written")
    .addOption(new Option("--label <key=value>", "a label, as often as needed").argParser(collectLabel))
    .addOption(new Option("--progress <percent>", "0 to 100").argParser(percent))
    .option("--session <id>", "the agent's session")
    .addOption(new Option("--iteration <n>", "the agent's iteration").argParser(wholeNumber(0)))
    .option("--parent <id...>", "checkpoints this one was made from (else the task's latest)", collectIds)
    .option("--retention <policy>", "short, standard, regulated, permanent, or a duration such as P30D")
    .option(
      "--workspace [folder]",
      "record the state of this folder: commit, uncommitted files, hashes (default .)",
    )
    .option("-f, --file <path>", "a checkpoint as JSON; - is standard input");
  addCallOptions(command, "the task has so many checkpoints").action(action(create));
  withExamples(command, (fleet) => ({
    "Say what was done and what comes next": `${fleet} checkpoint -t auth --type implementation --phase testing --completed "Login" "Logout" --next "Run the tests"`,
    "Before something risky": `${fleet} checkpoint -t auth --type qa --phase testing --note "Before the migration"`,
    "With the state of the repository": `${fleet} checkpoint -t auth --type qa --phase testing --next "Run the tests" --workspace`,
    "A whole checkpoint, in a script": `make-checkpoint | ${fleet} checkpoint --task auth -q`,
  }));
}

async function create(session: Session, flags: Flags): Promise<void> {
  const file = await fileOf(session, flags);
  const document = await completed(session, flags, file);
  if (flags.workspace !== undefined) await recordWorkspace(document.checkpoint, flags.workspace);
  const metadata = document.checkpoint.metadata as JsonObject;
  const client = await session.client(textOf(metadata.agent_id));
  // A document that names itself can be sent again and again, and is written once.
  const ownId = textOf(metadata.checkpoint_id);
  const outcome = await client.createCheckpoint({
    taskId: document.taskId ?? "",
    // The writer is the judge of what it is; an answer names every field that is wrong.
    checkpoint: document.checkpoint as never,
    ...callOptions(session, flags),
    commandId: flags.commandId ?? (ownId === undefined ? undefined : bareId(ownId)),
  });
  const { renderWritten } = await import("../../rendering/checkpoints/outcome.ts");
  await showOutcome(session, outcome, {
    done: "Checkpoint created",
    quiet: flags.quiet,
    more: renderWritten(document.checkpoint),
  });
}

/** For `fleet resume`, which tells a successor whether the folder still is so. */
async function recordWorkspace(checkpoint: JsonObject, folder: string | true): Promise<void> {
  const { takeWorkspace } = await import("../../../../shared/sdk/workspace/snapshot.ts");
  const modified = objectOf(checkpoint.metrics).files_modified;
  const files = Array.isArray(modified) ? modified.filter((path) => typeof path === "string") : [];
  const workspace = await takeWorkspace(folder === true ? "." : folder, { files });
  checkpoint.recovery = { ...objectOf(checkpoint.recovery), workspace };
}

/**
 * The document, if there is one. A file put in place of the keyboard is always read; a pipe only when the options alone
 * make no checkpoint, because programs leave pipes open that nothing will ever come through.
 */
async function fileOf(session: Session, flags: Flags): Promise<JsonObject | undefined> {
  const { inputKind, readObject, readPiped } = await import("../../input/document.ts");
  const { stdin } = session.context;
  if (flags.file !== undefined) return readObject(flags.file, stdin);
  const kind = inputKind();
  const needed = missingOptions(checkpointDocument(flags)).some((option) => option !== "task");
  if (kind === "nothing" || (kind === "pipe" && !needed)) return undefined;
  return readPiped(stdin, session.deadline.deadlineMs ?? LIMITS.request_deadline_ms_default);
}

/** Asks a person for what is missing; tells a script. */
async function completed(
  session: Session,
  flags: Flags,
  file: JsonObject | undefined,
): Promise<CheckpointDocument> {
  const document = checkpointDocument(flags, file);
  const missing = missingOptions(document);
  if (missing.length === 0) return document;
  if (session.interactive && !flags.quiet) {
    const { askFor } = await import("../../runtime/prompts.ts");
    return checkpointDocument({ ...flags, ...(await askFor(missing)) }, file);
  }
  const options = missing.map((name) => `--${name}`).join(", ");
  throw new UsageError(
    `a checkpoint needs ${options}`,
    `Give what is missing as options, or in the document that --file names; see \`${session.programName} checkpoint --help\`.`,
  );
}
