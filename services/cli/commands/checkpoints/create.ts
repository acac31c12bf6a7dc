// `fleet checkpoint create`: writes a checkpoint from options, from a document, or from both.

import { type Command, Option } from "commander";
import { TRIGGER_REASONS } from "../../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { addCallOptions, type CallFlags, callOptions } from "../../input/call-options.ts";
import {
  type CheckpointDocument,
  type CheckpointFlags,
  checkpointDocument,
  missingOptions,
  objectOf,
  textOf,
} from "../../input/checkpoint/checkpoint.ts";
import { collectLabel } from "../../input/checkpoint/label.ts";
import type { JsonObject } from "../../input/document.ts";
import { bareId, collectIds } from "../../input/id.ts";
import { percent, wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";
import { UsageError } from "../../runtime/usage.ts";
import { autoResumeOption } from "../missions/available-recovery.ts";

interface Flags extends CheckpointFlags, CallFlags {
  readonly attach?: readonly string[];
  readonly lint?: boolean;
  readonly file?: string;
  /** true: the current mission. */
  readonly mission?: string | true;
  readonly autoResume?: true;
  /** true: the current folder. */
  readonly workspace?: string | true;
}

export function addCreate(group: Command, action: ActionFactory): void {
  const command = group
    .command("create")
    .summary("Write a checkpoint of a task.")
    .description(
      "Write a checkpoint of a task: completed work, decisions, the next action. Without a task, the current mission is recorded.\n" +
        "A checkpoint is complete in itself: items that it leaves out are not copied from the previous one. To change a checkpoint, use `checkpoint update`.\n" +
        "A whole checkpoint can be given as JSON, with --file or through a pipe. Options win over it.",
    )
    .option("-t, --task <id>", "the task")
    .option("--mission [id]", "record this mission (else the current one), with --note alone")
    .option("--type <type>", "the agent type: architecture, implementation, qa, documentation, …")
    .option("--phase <phase>", "planning, implementing, testing, reviewing, complete or handoff")
    .option("--goal <text>", "the goal of the task")
    .option("--completed <title...>", "completed items")
    .option("--pending <title...>", "pending items")
    .option("--blocked <title...>", 'blocked items: "Deploy because the key is missing"')
    .option("--decision <text...>", 'decisions: "LMDB because it is embedded"')
    .option("--next <action>", "the exact next action")
    .option("--note <text>", "what this checkpoint is for")
    .addOption(new Option("--reason <reason>", "the moment of this checkpoint").choices([...TRIGGER_REASONS]))
    .option("--lint", "advise how the next agent could continue more easily")
    .addOption(new Option("--label <key=value>", "a label (repeatable)").argParser(collectLabel))
    .addOption(new Option("--progress <percent>", "0 to 100").argParser(percent))
    .addOption(
      new Option("--tokens <n>", "the tokens that the model has processed so far").argParser(wholeNumber(0)),
    )
    .addOption(new Option("--context-used <n>", "the tokens in the context now").argParser(wholeNumber(0)))
    .addOption(
      new Option("--context-limit <n>", "the tokens that the context can hold").argParser(wholeNumber(1)),
    )
    .option("--session <id>", "the agent's session")
    .addOption(new Option("--iteration <n>", "the agent's iteration").argParser(wholeNumber(0)))
    .option("--parent <id...>", "the parent checkpoints (else the task's latest)", collectIds)
    .option("--retention <policy>", "short, standard, regulated, permanent, or a duration such as P30D")
    .option(
      "--workspace [folder]",
      "record the state of this folder: commit, uncommitted files, hashes (default .)",
    )
    .option("--attach <file...>", "store these files as artifacts and reference them")
    .option("-f, --file <path>", "the checkpoint as JSON, or a builder-state.json; - is standard input");
  command.addOption(autoResumeOption());
  addCallOptions(command, "the task has this number of checkpoints").action(action(create));
  withExamples(command, (fleet) => ({
    "Completed work and the next action": `${fleet} checkpoint -t auth --type implementation --phase testing --completed "Login" "Logout" --next "Run the tests"`,
    "With the usage of the context, which may advise a handoff": `${fleet} checkpoint -t auth --type implementation --phase testing --next "Run the tests" --context-used 150000 --context-limit 200000`,
    "A mission as it is": `${fleet} checkpoint --mission msn-auth --note "Before the refactoring"`,
    "Before a risky step": `${fleet} checkpoint -t auth --type qa --phase testing --note "Before the migration"`,
    "With the state of the repository": `${fleet} checkpoint -t auth --type qa --phase testing --next "Run the tests" --workspace`,
    "With advice how the next agent could continue more easily": `${fleet} checkpoint -t auth --type qa --phase testing --completed "Wrote the login form" --next "Run test/login.test.ts" --lint`,
    "With a file that is too large for it": `${fleet} checkpoint -t auth --type qa --phase testing --attach coverage.html`,
    "A whole checkpoint, in a script": `make-checkpoint | ${fleet} checkpoint --task auth -q`,
  }));
}

async function create(session: Session, flags: Flags): Promise<void> {
  if (flags.mission !== undefined) {
    const { recordMission } = await import("../missions/mission-checkpoint.ts");
    return recordMission(session, flags);
  }
  const file = await fileOf(session, flags);
  if (file === undefined && isBare(flags)) {
    const { currentMission, recordMission } = await import("../missions/mission-checkpoint.ts");
    const mission = await currentMission(session);
    if (mission !== null) return recordMission(session, { ...flags, mission });
  }
  const document = await completeDocument(session, flags, file);
  if (flags.workspace !== undefined) await recordWorkspace(document.checkpoint, flags.workspace);
  await lint(session, document.checkpoint, flags.lint ?? false);
  warnOfContext(session, document.checkpoint);
  const metadata = document.checkpoint.metadata as JsonObject;
  const client = await session.client(textOf(metadata.agent_id));
  const checkpoint = await timed(client, document, flags);
  // A document with an id of its own is written once, however often it is sent.
  const ownId = textOf(metadata.checkpoint_id);
  // The writer validates it, and its refusal names every wrong field.
  const task = client.task(document.taskId ?? "");
  if (flags.attach !== undefined) {
    const { attachFiles } = await import("../artifacts/attachment.ts");
    await attachFiles(task, flags.attach);
  }
  const outcome = await task.checkpoint(checkpoint as never, {
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

/** The options that a checkpoint of a mission has too (seed 002, `fleet checkpoint`), and the global ones. */
const OF_MISSION: ReadonlySet<string> = new Set([
  ...["note", "quiet", "fence", "commandId", "autoResume"],
  ...["url", "tenant", "person", "agent", "timeout", "json", "color"],
]);

/** Whether the call says nothing about a task, so that the current mission is meant. */
const isBare = (flags: Flags): boolean => Object.keys(flags).every((name) => OF_MISSION.has(name));

/** Refuses a next action that says nothing to another agent. With `--lint` it also advises; advice goes to standard error. */
async function lint(session: Session, checkpoint: JsonObject, advises: boolean): Promise<void> {
  const { isVagueAction, lintCheckpoint, vagueAction } = await import(
    "../../../../shared/sdk/checkpoint-tool/lint.ts"
  );
  const { lintedDocument } = await import("../../input/checkpoint/linted-document.ts");
  const linted = lintedDocument(checkpoint);
  if (linted.nextAction !== undefined && isVagueAction(linted.nextAction)) {
    const { text, example } = vagueAction("");
    throw new UsageError(
      `${text}: "${linted.nextAction}"`,
      `Name the exact next step, such as "${example}".`,
    );
  }
  if (!advises) return;
  for (const { rule, path, text, example } of lintCheckpoint(linted)) {
    session.warn({
      code: "ADVICE",
      text: `${path}: ${text}; for example "${example}"`,
      // JSON has the path as a member; the text names it at its begin.
      details: session.json ? { rule, path } : { rule },
    });
  }
}

/** One of the two numbers alone does not tell how full the context is, so no handoff could be advised. */
function warnOfContext(session: Session, { metrics }: JsonObject): void {
  const { context_tokens: used, context_limit: limit, context_utilization: fraction } = objectOf(metrics);
  if ((used === undefined) === (limit === undefined) || fraction !== undefined) return;
  const [given, missing] =
    limit === undefined
      ? ["--context-used", "--context-limit, the tokens that the context can hold,"]
      : ["--context-limit", "--context-used, the tokens in the context now,"];
  session.warn({
    code: "ADVICE",
    text: `${given} without ${missing} does not tell how full the context is, so no handoff is advised`,
    details: {},
  });
}

/** How long the times of the items of the latest checkpoint are waited for; without an answer, new items and old ones have the time of now. */
const TIMES_MS = 1_000;

/** The times of the items and decisions that options name. */
async function timed(
  client: FleetClient,
  { taskId, checkpoint }: CheckpointDocument,
  { completed, decision }: Flags,
): Promise<JsonObject> {
  if (completed === undefined && decision === undefined) return checkpoint;
  const { withTimes } = await import("../../input/checkpoint/item-times.ts");
  const query = { deadlineMs: TIMES_MS };
  const before = await client.getLatestCheckpoint(taskId ?? "", query).catch(() => null);
  return withTimes(checkpoint, (before ?? {}) as JsonObject, new Date().toISOString());
}

/** Records the state of the folder, with which `fleet resume` compares it later. */
async function recordWorkspace(checkpoint: JsonObject, folder: string | true): Promise<void> {
  const { takeWorkspace } = await import("../../../../shared/sdk/workspace/snapshot.ts");
  const modified = objectOf(checkpoint.metrics).files_modified;
  const files = Array.isArray(modified) ? modified.filter((path) => typeof path === "string") : [];
  const workspace = await takeWorkspace(folder === true ? "." : folder, { files });
  checkpoint.recovery = { ...objectOf(checkpoint.recovery), workspace };
}

/**
 * The document, if there is one. A file on standard input is always read. A pipe is read only if the options alone do not
 * make a checkpoint, because a parent process may leave a pipe open and never write to it.
 */
async function fileOf(session: Session, flags: Flags): Promise<JsonObject | undefined> {
  const { readObject, readPiped } = await import("../../input/document.ts");
  const { fromWorkArtifact } = await import("../../input/checkpoint/work-artifact.ts");
  const { stdin, inputKind } = session.context;
  if (flags.file !== undefined) return fromWorkArtifact(await readObject(flags.file, stdin));
  const isNeeded = missingOptions(checkpointDocument(flags)).some((option) => option !== "task");
  if (inputKind === "nothing" || (inputKind === "pipe" && !isNeeded)) return undefined;
  const piped = await readPiped(stdin, session.deadline.deadlineMs ?? LIMITS.request_deadline_ms_default);
  return piped && fromWorkArtifact(piped);
}

/** Asks an operator at a terminal for the missing options. Throws UsageError in a script. */
async function completeDocument(
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
    `Give them as options or in the document of --file; see \`${session.programName} checkpoint --help\`.`,
  );
}
