/** The setting that names the identity providers whose people may sign. Writers and readers share it. */
import { type EsignIssuerSettings, esignSettingsSchema } from "../../protocol/esign-settings.ts";
import { type ConfigOf, optional, text } from "../../runtime/settings/config.ts";
import { readSettingsFile } from "../settings-file.ts";

const NAME = "FLEET_ESIGN_ISSUERS";

export const esignFields = {
  esignIssuers: optional(
    text(NAME, {
      min: 1,
      description:
        "File with the identity providers whose people may sign checkpoints electronically, as in shared/protocol/SECURITY.md; JSON. Writers and readers need the same one; without it no signature is accepted",
    }),
  ),
} as const;

/** Throws ConfigError with all problems of the file. */
export function readEsignIssuers({
  esignIssuers,
}: ConfigOf<typeof esignFields>): readonly EsignIssuerSettings[] {
  if (esignIssuers === undefined) return [];
  const file = { name: NAME, path: esignIssuers };
  return readSettingsFile(file, esignSettingsSchema).issuers;
}
