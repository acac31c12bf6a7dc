/** Which pages may use a passkey, as browsers decide it (Web Authentication, 5.1.4). */

/** The domain of the pages of `fleet sign`, which the machine of the person serves to itself. */
export const LOCAL_PAGES = "localhost";

const ORIGIN = /^(https?):\/\/([a-z0-9.-]+)(?::[0-9]{1,5})?$/;

/** `rpId`: the domain for which the passkey signs. */
export function isOriginOf(rpId: string, origin: string): boolean {
  const [, scheme, host = ""] = ORIGIN.exec(origin) ?? [];
  const isSecure = scheme === "https" || (scheme === "http" && host === LOCAL_PAGES);
  return isSecure && (host === rpId || host.endsWith(`.${rpId}`));
}
