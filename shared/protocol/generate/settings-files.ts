/** The JSON Schemas of the settings files, with which editors complete and check them. */
import { z } from "zod";
import { bucketSettingsSchema } from "../anchor-bucket-settings.ts";
import { esignSettingsSchema } from "../esign-settings.ts";
import { policySchema } from "../policy.ts";
import { runnerSettingsSchema } from "../runner-settings.ts";
import { signerSettingsSchema } from "../signer-settings.ts";
import { webhooksSchema } from "../webhook-settings.ts";

interface SettingsSchema {
  readonly title: string;
  readonly schema: z.ZodType;
}

const SETTINGS_FILES: Readonly<Record<string, SettingsSchema>> = {
  esign: { title: "The identity providers of signers, in FLEET_ESIGN_ISSUERS", schema: esignSettingsSchema },
  policy: { title: "The policy of handoffs and recoveries, in FLEET_POLICY", schema: policySchema },
  runner: { title: "The agents of a runner, in FLEET_RUNNER_CONFIG", schema: runnerSettingsSchema },
  signer: { title: "The issuers of a signing service, in FLEET_SIGNER_CONFIG", schema: signerSettingsSchema },
  "anchor-bucket": {
    title: "The bucket for anchors of the audit log, in FLEET_AUDIT_ANCHOR_BUCKET",
    schema: bucketSettingsSchema,
  },
  webhooks: { title: "The webhooks of a fleet, in FLEET_WEBHOOKS", schema: webhooksSchema },
};

/** Unlike those of the protocol, they refuse unknown members: a misspelt name would leave a default in force. */
export function settingsSchemas(): [file: string, schema: Record<string, unknown>][] {
  return Object.entries(SETTINGS_FILES).map(([name, { title, schema }]) => {
    const { $schema, ...rest } = z.toJSONSchema(withSchema(schema), { io: "input", unrepresentable: "any" });
    return [`settings-${name}.json`, { $schema, title, ...rest }];
  });
}

/** A file names its schema in `$schema`. A list has no place for it. */
function withSchema(schema: z.ZodType): z.ZodType {
  return schema instanceof z.ZodObject ? schema.safeExtend({ $schema: z.string().optional() }) : schema;
}
