// `fleet checkpoint show`: one checkpoint with all its sections.

import { type Command, Option } from "commander";
import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { checkpointId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly version?: number;
}

export function addShow(group: Command, action: ActionFactory): void {
  const command = group
    .command("show")
    .description(
      "Show one checkpoint with all its sections, and the electronic signatures of all its versions. With --json, print it as it is stored, with the signatures of the shown version as electronic_signatures, and of the others as other_versions_signatures.",
    )
    .argument("<id>", "the checkpoint", checkpointId)
    .addOption(
      new Option("--version <n>", "an earlier version (else the current one)").argParser(wholeNumber(1)),
    )
    .action(action(show));
  withExamples(command, (fleet) => ({
    "The current version": `${fleet} checkpoint show chk-0199…`,
    "The first version": `${fleet} checkpoint show chk-0199… --version 1`,
    "The next action, in a script": `${fleet} checkpoint show chk-0199… --json | jq .execution_state.resume_pointer`,
  }));
}

async function show(session: Session, id: string, flags: Flags): Promise<void> {
  const { orFromCopies } = await import("../missions/mission-copies.ts");
  await orFromCopies(
    session,
    () => showStored(session, id, flags),
    async (copies) => {
      const checkpoint = await copies.checkpoint(id);
      const isWanted = flags.version === undefined || checkpoint?.metadata.version === flags.version;
      if (checkpoint === null || !isWanted) return false;
      const { warnNotInMirror } = await import("../esign/shown-signatures.ts");
      warnNotInMirror(session, { checkpoint_id: id });
      await print(session, checkpoint);
      return true;
    },
  );
}

async function showStored(session: Session, id: string, { version }: Flags): Promise<void> {
  const client = await session.client();
  const checkpoint = await client.getCheckpoint(id, {
    ...session.deadline,
    ...(version !== undefined && { version }),
    signature: true,
  });
  if (checkpoint === null) {
    const { FleetError } = await import("../../../../shared/protocol/errors.ts");
    throw new FleetError("NOT_FOUND", "there is no such checkpoint", {
      details: { checkpoint_id: id, ...(version !== undefined && { version }) },
    });
  }
  const { signaturesOf } = await import("../esign/shown-signatures.ts");
  await print(session, checkpoint, await signaturesOf(session, [checkpoint]));
}

/** `signatures`: of all versions. A person has not signed the shown version by signing another one. */
async function print(
  session: Session,
  checkpoint: Checkpoint,
  signatures: readonly EsignBlock[] = [],
): Promise<void> {
  const { renderCheckpoint } = await import("../../rendering/checkpoints/checkpoint.ts");
  const { withSignatures } = await import("../../../../shared/sdk/esign/display.ts");
  await session.show(withSignatures(checkpoint, signatures), () =>
    renderCheckpoint(checkpoint, session.view, signatures),
  );
}
