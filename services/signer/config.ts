/** The settings of the signing service. */

import { tlsFields } from "../../shared/bus/tls-settings.ts";
import { type IssuerSettings, signerSettingsSchema } from "../../shared/protocol/signer-settings.ts";
import { type ConfigOf, text } from "../../shared/runtime/settings/config.ts";
import { opsPortField, processFields } from "../../shared/runtime/settings/process-settings.ts";
import { clusterFields } from "../../shared/service-host/service-settings.ts";
import { readSettingsFile } from "../../shared/service-host/settings-file.ts";

const NAME = "FLEET_SIGNER_CONFIG";

export const signerFields = {
  ...processFields,
  opsPort: opsPortField(4283),
  busUrl: clusterFields.busUrl,
  busCredentials: clusterFields.busCredentials,
  ...tlsFields,
  signerConfig: text(NAME, {
    description:
      "File with the issuers whose tokens the signing service accepts, as in services/signer/README.md; JSON",
  }),
  signerKeys: text("FLEET_SIGNER_KEYS", {
    description: "File with the keys of the signing service, from `fleet access init --signer`",
  }),
} as const;

export type SignerConfig = ConfigOf<typeof signerFields>;

/** Throws ConfigError with all problems of the file. */
export function readIssuers(path: string): readonly IssuerSettings[] {
  return readSettingsFile({ name: NAME, path }, signerSettingsSchema).issuers;
}
