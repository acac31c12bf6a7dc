// What is encrypted in the store leaves it in clear with a plain export. The caller should know.

import { parsePrincipal } from "../../../../../shared/protocol/principal.ts";
import type { Session } from "../../../runtime/session.ts";

interface ExportChoice {
  readonly task?: readonly string[];
  readonly encryptWith?: readonly string[];
}

export async function warnOfPlain(session: Session, choice: ExportChoice): Promise<void> {
  if (choice.encryptWith !== undefined || !(await isStoreEncrypted(session, choice))) return;
  session.warn({
    code: "EXPORT_PLAIN",
    text: "the store is encrypted, and this export is not",
    details: { next: "--encrypt-with" },
  });
}

/** False if no reader says it: the export itself has succeeded. */
async function isStoreEncrypted(session: Session, { task }: ExportChoice): Promise<boolean> {
  const client = await session.client();
  // An agent may export a task and not ask for the state of the fleet: the request would be refused, and be in the access log.
  if (task !== undefined && parsePrincipal(client.agentId)?.kind === "agent") return false;
  const status = await client.admin.status(session.deadline).catch(() => null);
  return status?.store.encrypted === true;
}
