/**
 * The version of the messages on the bus. A message without the header has version 1, so today's messages carry none, which would cost as much as
 * a small answer. A later version that an older program would misunderstand is sent with the header, and refused here.
 */
import { FleetError } from "./errors.ts";

export const PROTOCOL_VERSION = 1;

/** `header`: that of the message, `Fleet-Protocol`. Throws UNSUPPORTED_VERSION for a newer version, INVALID for no version. */
export function requireProtocol(header: string | undefined): void {
  if (header === undefined) return;
  const version = /^[1-9]\d{0,3}$/.test(header) ? Number(header) : undefined;
  if (version !== undefined && version <= PROTOCOL_VERSION) return;
  const field = { path: "Fleet-Protocol", expected: `at most ${PROTOCOL_VERSION}`, got: header };
  if (version === undefined) throw new FleetError("INVALID", "the input is not valid", { fields: [field] });
  throw new FleetError("UNSUPPORTED_VERSION", "the message is of a newer version of Fleet", {
    fields: [field],
  });
}
