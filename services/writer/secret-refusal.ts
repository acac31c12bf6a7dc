/** The refusal of commands with secrets, where the policy of a tenant requires that their senders remove them. */
import { secretShapesIn } from "../../shared/integrity/redaction/content.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";

const FIELDS_SHOWN = 20;

/** `body`: as it was sent. Throws INVALID with each place and rule, never a value. */
export function requireNoSecrets(body: unknown, metrics: Pick<Metrics, "secretsRefusedTotal">): void {
  const found = secretShapesIn(body);
  if (found.length === 0) return;
  for (const { rule } of found) metrics.secretsRefusedTotal.inc({ rule });
  throw new FleetError("INVALID", "the command has secrets, which the policy of the tenant refuses", {
    fields: found.slice(0, FIELDS_SHOWN).map(({ path, rule }) => ({
      path: path.slice(1).replaceAll("/", "."),
      expected: `no secret (${rule})`,
    })),
    details: {
      secrets: found.length,
      remedy: "remove the secrets, or set FLEET_REDACTION=on for the sender",
    },
  });
}
