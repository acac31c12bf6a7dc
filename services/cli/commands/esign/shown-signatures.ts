// The electronic signatures beside what a command shows. A failure to read them is never silent, also of a fleet of an older version, which does not know the query.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { EsignBlock, ListedEsignature } from "../../../../shared/protocol/esign.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Checkpoint, ListEsignaturesOptions } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

const READ_FAILED = "the electronic signatures could not be read";

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
    warnUnread(session, READ_FAILED, { task_id: task, problem: error.code });
    return [];
  }
}

/** Tasks whose signatures are read at once. */
const READS = 8;

/** The signatures of all versions of these checkpoints, in the time of one call. The first failure ends the reads: a fleet that is away, or of an older version, fails them all. */
export async function signaturesOf(
  session: Session,
  checkpoints: readonly Checkpoint[],
): Promise<readonly ListedEsignature[]> {
  const shown = new Set(checkpoints.map(({ metadata }) => metadata.checkpoint_id));
  const tasks = [...new Set(checkpoints.map(({ metadata }) => metadata.task_id))];
  const { admin } = await session.client();
  const end = performance.now() + (session.deadline.deadlineMs ?? LIMITS.request_deadline_ms_default);
  const found: ListedEsignature[] = [];
  let read = 0;
  let problem: string | null = null;
  for (let at = 0; at < tasks.length && problem === null; at += READS) {
    const deadlineMs = Math.max(1, Math.round(end - performance.now()));
    const some = tasks.slice(at, at + READS).map((task) => admin.esign.list(task, { deadlineMs }));
    for (const result of await Promise.allSettled(some)) {
      if (result.status === "fulfilled") {
        found.push(...result.value);
        read += 1;
      } else if (result.reason instanceof FleetError) problem ??= result.reason.code;
      else throw result.reason;
    }
  }
  if (problem !== null) warnUnread(session, READ_FAILED, { tasks: tasks.length - read, problem });
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
