// The electronic signatures beside what a command shows. A failure to read them is never silent, also of a fleet of an older version, which does not know the query.

import type { CheckpointPage } from "../../../../shared/protocol/checkpoint-pages.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import {
  type EsignBlock,
  type ListedEsignature,
  shownBlocks,
  withoutSignatures,
} from "../../../../shared/protocol/esign.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

const READ_FAILED = "the electronic signatures could not be read";

/** The signatures of all versions of these checkpoints, in the time of one call. */
export async function signaturesOf(
  session: Session,
  checkpoints: readonly Checkpoint[],
): Promise<readonly ListedEsignature[]> {
  const { admin } = await session.client();
  const { signatures, unread } = await admin.esign.ofCheckpoints(checkpoints, session.deadline);
  if (unread !== null) warnUnread(session, READ_FAILED, unread);
  return signatures;
}

/** The signatures of all versions of the checkpoints of a task that a display names, in the time of one call. null: it names none there. */
export async function signaturesOfNamed(
  session: Session,
  task: string,
  names: readonly (string | null)[],
): Promise<readonly ListedEsignature[]> {
  const ids = names.filter((name) => name !== null);
  if (ids.length === 0) return [];
  const { admin } = await session.client();
  try {
    return await admin.esign.ofNamed(task, ids, session.deadline);
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    warnUnread(session, READ_FAILED, { task_id: task, problem: error.code });
    return [];
  }
}

/** The member of a display as JSON, in which each signature names its checkpoint. Nothing if there are none. */
export const besideMember = (signatures: readonly EsignBlock[]): object =>
  signatures.length === 0 ? {} : { electronic_signatures: shownBlocks(signatures) };

/** A page with the signatures that this program has verified, in place of what its reader says about them. */
export const pageWithBlocks = (page: CheckpointPage, signatures: readonly EsignBlock[]): object => ({
  ...withoutSignatures(page),
  checkpoints: page.checkpoints.map(withoutSignatures),
  ...besideMember(signatures),
});

/** Each checkpoint with the signatures of its versions, if it has any. */
export function withBlocks(
  checkpoints: readonly Checkpoint[],
  signatures: readonly EsignBlock[],
): readonly object[] {
  return checkpoints.map((checkpoint) => {
    const { checkpoint_id } = checkpoint.metadata;
    const own = signatures.filter((one) => one.checkpoint_id === checkpoint_id);
    return { ...withoutSignatures(checkpoint), ...besideMember(own) };
  });
}

/** For a display from the files of the mirror. */
export function warnNotInMirror(session: Session, details: { readonly [id: string]: string }): void {
  warnUnread(session, "the files of the mirror have no electronic signatures", details);
}

function warnUnread(
  session: Session,
  text: string,
  details: { readonly [name: string]: string | number },
): void {
  session.warn({ code: "SIGNATURES_UNREAD", text, details });
}
