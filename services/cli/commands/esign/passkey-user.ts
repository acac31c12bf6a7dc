// The name under which an authenticator keeps a passkey. All fleets have pages on `localhost`, and an authenticator has one passkey for each domain and name: with
// one name for a person, the passkey of a second fleet or tenant would replace that of the first.

import { createHash } from "node:crypto";
import type { SignerId } from "../../../../shared/protocol/esign-signer.ts";

interface PasskeyHome {
  /** undefined: the fleet announces no identity. */
  readonly fleet: string | undefined;
  readonly tenant: string;
}

/** In base64url. It does not show who the person is. */
export function passkeyUser({ fleet = "", tenant }: PasskeyHome, { issuer, subject }: SignerId): string {
  const name = JSON.stringify([fleet, tenant, issuer, subject]);
  return createHash("sha256").update(name).digest("base64url");
}
