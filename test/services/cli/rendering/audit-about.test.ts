/** What the audit trails say of an act: the facts that a reader needs, each with its name. */
import { expect, test } from "vitest";
import { renderAudit } from "../../../../services/cli/rendering/operations/audit.ts";
import { renderTenantAudit } from "../../../../services/cli/rendering/operations/tenant-audit.ts";
import { view } from "./view.ts";

const HASH = "a".repeat(64);

function abouts(...entries: readonly object[]): readonly string[] {
  const shown = entries.map((one, i) => ({ seq: i + 1, entry: JSON.stringify(one), hash: HASH }));
  const lines = renderAudit({ task: "auth", entries: shown, signatures: [], next: undefined }, view).split(
    "\n",
  );
  return lines
    .slice(3, 3 + entries.length)
    .map((line) => line.slice(line.indexOf(HASH.slice(0, 12)) + 14).trim());
}

test("the trail of a task names meaning and person of a signature, the policy, the hold with its case, and the shredding", () => {
  const hold = { op: "hold", holds: [], reason: "litigation", case: "C-12/2026" };
  expect(
    abouts(
      {
        op: "signature_add",
        meaning: "approval",
        signer_subject: "ada",
        signer_issuer: "https://id.example",
      },
      { op: "retain", retention_policy: "audit_7y", holds: [] },
      { op: "retain", retention_policy: null, holds: [] },
      { ...hold, hold: "smith", release: null },
      { ...hold, hold: null, release: "smith", reason: "settled", case: null },
      { op: "shred_request", reason: "erasure_request", case: "E-7" },
      { op: "shred_approve", request: 6 },
    ),
  ).toEqual([
    "approval by ada",
    "policy audit_7y",
    "policy of the settings",
    "places smith, litigation, case C-12/2026",
    "releases smith, settled",
    "erasure request, case E-7",
    "request of entry 6",
  ]);
});

test("the trail of the tenant names each fact of a subject", () => {
  const subject = { manifest: "ab".repeat(32), entries: 8, extent: "tasks" };
  const entry = { action: "export", actor: { id: "human=ada", type: "human" }, subject };
  const entries = [{ seq: 1, entry: JSON.stringify(entry), hash: HASH }];
  expect(renderTenantAudit({ entries, next: undefined }, view)).toContain(
    `manifest ${"ab".repeat(32)}, entries 8, extent tasks`,
  );
});
