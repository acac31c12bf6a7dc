// The electronic signatures beside what a command shows. A failure to read them is never silent, also of a fleet of an older version, which does not know the query.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { EsignBlock, ListedEsignature } from "../../../../shared/protocol/esign.ts";
import type { Checkpoint, ListEsignaturesOptions } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

export async function shownSignatures(
  session: Session,
  task: string,
  options: ListEsignaturesOptions = {},
): Promise<readonly ListedEsignature[]> {
  const { admin } = await session.client();
  try {
    return await admin.esign.list(task, { ...session.deadline, ...options });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    const text = "the electronic signatures could not be read";
    session.warn({ code: "SIGNATURES_UNREAD", text, details: { task_id: task, problem: error.code } });
    return [];
  }
}

/** Tasks whose signatures are read at once. */
const READS = 8;

/** The signatures of all versions of these checkpoints. */
export async function signaturesOf(
  session: Session,
  checkpoints: readonly Checkpoint[],
): Promise<readonly ListedEsignature[]> {
  const shown = new Set(checkpoints.map(({ metadata }) => metadata.checkpoint_id));
  const tasks = [...new Set(checkpoints.map(({ metadata }) => metadata.task_id))];
  const found: ListedEsignature[] = [];
  for (let at = 0; at < tasks.length; at += READS) {
    const some = tasks.slice(at, at + READS);
    found.push(...(await Promise.all(some.map((task) => shownSignatures(session, task)))).flat());
  }
  return found.filter(({ checkpoint_id }) => shown.has(checkpoint_id));
}

/** What a display shows, without all that verifies the signatures. */
export const shownBlocks = (signatures: readonly EsignBlock[]): readonly EsignBlock[] =>
  signatures.map(({ signed: _, entry: __, passkey_acts: ___, ...block }) => block);

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

/** For a display from the files of the mirror, which have checkpoints and no signatures. */
export function warnUnread(session: Session, details: { readonly [id: string]: string }): void {
  const text = "the files of the mirror have no electronic signatures";
  session.warn({ code: "SIGNATURES_UNREAD", text, details });
}
