// The verification of a bundle of evidence, for auditors and operators.

import { revocationText } from "../../../../shared/transfer/bundle/offline/bundle-keys.ts";
import type { BundleReport } from "../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { groupedFindings } from "../../../../shared/transfer/bundle/offline/findings/finding-texts.ts";
import { hasNoManifest, hasOtherFormat } from "../../../../shared/transfer/bundle/offline/verify-program.ts";
import { shortKeyId } from "../keys/signing-keys.ts";
import { bulletList, field } from "../terminal/fields.ts";
import { counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

const COMPLETE = {
  tenant: "all tasks of the tenant, each with all its entries, as the fleet compared",
  tasks: "each task with all its entries, as the fleet compared; other tasks may exist",
  nothing: "not compared by the fleet: newest entries and tasks may be missing",
};

function personText(one: BundleReport["electronic_signatures"][number]): string {
  const by = `${one.printed_name} (${one.subject} of ${one.issuer})`;
  const how = one.method === "webauthn" ? ", with a passkey" : "";
  const newest =
    one.newest_version > one.version ? `, which version ${one.newest_version} has superseded` : "";
  const why = one.reason === null ? "" : `, reason: ${one.reason}`;
  return plain(
    `${by}, ${one.meaning}, ${one.signed_at} (${one.zone})${how}, version ${one.version} of ${one.checkpoint_id}${newest}${why}`,
  );
}

const ANCHOR_TIME = {
  verified: "by an authority that you trust",
  unverified: "by an authority that is NOT VERIFIED: give its certificate with --tsa-ca",
  stated: "as the fleet states",
};

function anchorFields({ anchors, anchors_omitted_before: before }: BundleReport, view: View): string[] {
  if (anchors.length === 0) return [field("Anchored", "no: the bundle has no anchors of the log", view)];
  const fields = anchors.map(({ target, size, at, time }) => {
    const text = `the first ${counted(size, "entry", "entries")} of the log, at ${plain(at)}, ${ANCHOR_TIME[time]}`;
    return field(`Anchored (${target})`, text, view);
  });
  return before === null
    ? fields
    : [...fields, field("Older anchors", `not in the bundle, those of fewer than ${before} entries`, view)];
}

function accessText(
  { access_blocks = 0, access_records = 0, access_lost = 0, access_open = 0 }: BundleReport["counts"],
  isComplete: boolean | null,
) {
  const gaps = [
    ...(access_lost > 0 ? [`${counted(access_lost, "entry", "entries")} lost`] : []),
    ...(access_open > 0 ? [`${counted(access_open, "process", "processes")} without an end`] : []),
  ];
  const log = `${counted(access_records, "read or refusal", "reads and refusals")} in ${counted(access_blocks, "block")}`;
  const end =
    isComplete === true ? "to its end, as the fleet compared" : "its end was not compared by the fleet";
  return [log, ...gaps, end].join(", ");
}

/** One sentence for each code, with its first places. */
function findingTexts(findings: BundleReport["findings"]): readonly string[] {
  return groupedFindings(findings).map(({ code, text, total, places }) => {
    const times = total === 1 ? "" : ` (${total} times)`;
    return plain(`${code}${times}: ${text}; at ${places.join(", ")}`);
  });
}

export function renderBundle(path: string, report: BundleReport, view: View): string {
  const { colors } = view;
  const { findings } = report;
  return [
    report.ok
      ? `${colors.green("✓")} ${plain(path)} verifies.`
      : `${colors.red("✗")} ${plain(path)} has ${report.more_findings ? "more than " : ""}${counted(findings.length, "finding")}.`,
    ...(hasNoManifest(report) ? [] : contentLines(report, view)),
    ...bulletList("Findings", findingTexts(findings), view),
    ...(hasOtherFormat(report)
      ? [
          "The bundle is of another version of Fleet: verify it with the verifier of that version, or export again.",
        ]
      : []),
  ].join("\n");
}

function contentLines(report: BundleReport, view: View): readonly string[] {
  const { counts, keys, keys_compared, sealed, log_size, continues } = report;
  const { tenant, fleet, exported_at } = report;
  const of = (name: string): number => counts[name] ?? 0;
  const revoked = report.keys_revoked.map(
    (one) => `key ${shortKeyId(one.key_id)}, ${plain(revocationText(one))}`,
  );
  return [
    field(
      "Of",
      `tenant ${plain(tenant ?? "unknown")} of fleet ${plain(fleet ?? "unknown")}, at ${plain(exported_at ?? "unknown")}`,
      view,
    ),
    field(
      "With",
      `${counted(of("tasks"), "task")}, ${counted(of("versions"), "version")} of checkpoints, ${counted(of("entries"), "audit entry", "audit entries")}`,
      view,
    ),
    field(
      "Signed",
      `${counted(of("signed"), "entry", "entries")} by ${keys.map(shortKeyId).join(", ") || "no key"}`,
      view,
    ),
    ...bulletList("Signed by revoked keys", revoked, view),
    field(
      "In the log",
      `${of("included")} of ${counted(of("entries"), "entry", "entries")}; the log has ${log_size ?? 0}`,
      view,
    ),
    ...anchorFields(report, view),
    ...(counts.access_blocks === undefined
      ? []
      : [field("Access log", accessText(counts, report.access_complete), view)]),
    field("Sealed", sealed ? "by the fleet" : "no: the fleet has not signed the manifest", view),
    field("Complete", COMPLETE[report.complete ?? "nothing"], view),
    ...bulletList("Signatures of people", report.electronic_signatures.map(personText), view),
    ...(continues === true ? ["The log continues the kept checkpoint."] : []),
    ...(report.keys_proved
      ? []
      : [
          view.colors.yellow(
            "The bundle lacks the audit entries about the keys: the fleet alone states when they were valid.",
          ),
        ]),
    ...(keys_compared
      ? []
      : [view.colors.yellow("The keys are only those that the bundle states: compare them with --key.")]),
  ];
}
