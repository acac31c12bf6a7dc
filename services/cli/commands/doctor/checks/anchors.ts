// Whether the audit log is anchored outside the fleet, and whether its time-stamps are those of a known authority.

import type { AuditAnchor } from "../../../../../shared/protocol/audit-anchors.ts";
import { type CheckOutcome, notChecked, sound, warning } from "../check-outcome.ts";
import type { BusFacts } from "../facts.ts";

export function checkAnchors({ anchors }: BusFacts): CheckOutcome {
  if ("problem" in anchors) return notChecked("signing.anchors", anchors.problem, anchors.fix);
  // Anchors are a choice: without them, kept checkpoints show the same.
  if (anchors.length === 0)
    return sound("signing.anchors", "the audit log has no anchors: no FLEET_AUDIT_ setting names a place");
  const stamp = anchors.find(({ target }) => target === "timestamp");
  if (stamp === undefined || stamp.verified === true) return sound("signing.anchors", newestText(anchors));
  return warning(
    "signing.anchors",
    `the newest time-stamp of the audit log, at ${stamp.at}, is UNVERIFIED: any authority may have made it`,
    "Set FLEET_AUDIT_TSA_CA of the watchdog to a file with the certificates of the authority (PEM), and restart it.",
  );
}

const newestText = (anchors: readonly AuditAnchor[]): string =>
  `anchored: ${anchors.map(({ target, size }) => `${target} (${size} entries)`).join(", ")}`;
