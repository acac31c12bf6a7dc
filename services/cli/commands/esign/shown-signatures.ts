// The electronic signatures beside what a command shows. A failure to read them is never silent, also of a fleet of an older version, which does not know the query.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { EsignBlock, ListedEsignature } from "../../../../shared/protocol/esign.ts";
import type { ListEsignaturesOptions } from "../../../../shared/sdk/sdk.ts";
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

/** What a display shows, without all that verifies the signatures. */
export const shownBlocks = (signatures: readonly EsignBlock[]): readonly EsignBlock[] =>
  signatures.map(({ signed: _, entry: __, passkey_acts: ___, ...block }) => block);
