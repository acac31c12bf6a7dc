// `fleet checkpoint update`: changes a draft by a JSON merge patch (RFC 7396).

import type { Command } from "commander";
import { addCallOptions, type CallFlags, callOptions } from "../../input/call-options.ts";
import { checkpointId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";

interface Flags extends CallFlags {
  readonly patch: string;
  readonly task?: string;
}

export function addUpdate(group: Command, action: ActionFactory): void {
  const command = group
    .command("update")
    .summary("Change a checkpoint that is not finalized.")
    .description(
      "Change a checkpoint that is not finalized, by a JSON merge patch:\nabsent fields stay, null removes a field, arrays are replaced.",
    )
    .argument("<id>", "the checkpoint", checkpointId)
    .requiredOption("-p, --patch <json>", "the patch: JSON, @file, or - for standard input")
    .option("-t, --task <id>", "its task, which saves a look-up");
  addCallOptions(command, "the checkpoint has this version").action(action(update));
  withExamples(command, (fleet) => ({
    "Record progress": `${fleet} checkpoint update chk-0199… --patch '{"execution_state":{"progress_percent":75,"current_focus":"tests"}}'`,
    "From a file, unless another update came first": `${fleet} checkpoint update chk-0199… --patch @patch.json --expected-version 2`,
  }));
}

async function update(session: Session, id: string, flags: Flags): Promise<void> {
  const { readArgument } = await import("../../input/document.ts");
  const { checkpointShape, misspellingsOf } = await import("../../input/checkpoint/patch.ts");
  const patch = await readArgument(flags.patch, session.context.stdin, "--patch");
  for (const { path, meant } of misspellingsOf(patch, await checkpointShape())) {
    session.warn({
      code: "UNKNOWN_FIELD",
      text: `unknown field, did you mean ${meant}?`,
      details: { field: path },
    });
  }
  const client = await session.client();
  const options = { ...callOptions(session, flags), taskId: flags.task };
  const outcome = await (await client.taskOf(id, options)).update(id, patch, options);
  await showOutcome(session, outcome, { done: "Checkpoint updated", quiet: flags.quiet });
}
