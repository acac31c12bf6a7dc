// The options of `fleet sign` and `fleet signatures`.

import type { EsignMeaning } from "../../../../shared/protocol/esign.ts";

export interface VersionFlags {
  readonly version?: number;
}

export interface SignFlags extends VersionFlags {
  readonly meaning: EsignMeaning;
  readonly with: "login" | "passkey";
  readonly reason?: string;
  readonly issuer?: string;
  readonly open?: boolean;
  readonly signer?: string;
  readonly newPasskey?: boolean;
}
