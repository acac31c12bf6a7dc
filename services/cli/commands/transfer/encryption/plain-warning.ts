// What is encrypted in the store leaves it in clear with a plain export. The caller should know.

import type { Session } from "../../../runtime/session.ts";

const KNOWN_WITHIN_MS = 2_000;

export async function warnOfPlain(
  session: Session,
  { encryptWith }: { readonly encryptWith?: readonly string[] },
): Promise<void> {
  if (encryptWith !== undefined || !(await isStoreEncrypted(session))) return;
  session.warn({
    code: "EXPORT_PLAIN",
    text: "the store is encrypted, and this export is not",
    details: { next: "--encrypt-with" },
  });
}

/** False if no service says it in time, or the caller may not ask: the export itself has succeeded. */
async function isStoreEncrypted(session: Session): Promise<boolean> {
  const { admin } = await session.client();
  const services = await admin.diagnose({ deadlineMs: KNOWN_WITHIN_MS }).catch(() => []);
  return services.some(({ diagnosis }) => (diagnosis.encryption?.state ?? "off") !== "off");
}
