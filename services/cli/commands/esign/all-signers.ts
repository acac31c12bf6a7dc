// Reads all pages of the people who sign.

import type { SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import type { Session } from "../../runtime/session.ts";

export async function allSigners(session: Session): Promise<readonly SignerRecord[]> {
  const { admin } = await session.client();
  const all: SignerRecord[] = [];
  for (let cursor: string | undefined, isFirst = true; isFirst || cursor !== undefined; isFirst = false) {
    const page = await admin.esign.signers({ cursor, ...session.deadline });
    all.push(...page.signers);
    cursor = page.cursor;
  }
  return all;
}
