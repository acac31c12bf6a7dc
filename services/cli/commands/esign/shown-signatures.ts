// The electronic signatures beside what a command shows. A failure to read them is never silent, also of a fleet of an older version, which does not know the query.

import { type EsignBlock, type ListedEsignature, shownBlocks } from "../../../../shared/protocol/esign.ts";
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

/** Each checkpoint with the signatures of its versions, if it has any. */
export function withBlocks(
  checkpoints: readonly Checkpoint[],
  signatures: readonly EsignBlock[],
): readonly object[] {
  return checkpoints.map((checkpoint) => {
    const { checkpoint_id } = checkpoint.metadata;
    const own = shownBlocks(signatures.filter((one) => one.checkpoint_id === checkpoint_id));
    return own.length === 0 ? checkpoint : { ...checkpoint, electronic_signatures: own };
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
