// An export file, for operators.

import type { ExportFault } from "../../../../shared/transfer/export-line.ts";
import type { ExportSummary } from "../../../../shared/transfer/export-verifier.ts";
import { signatureBlockText } from "../esign/signatures.ts";
import { shortKeyId } from "../keys/signing-keys.ts";
import { bulletList, field } from "../terminal/fields.ts";
import { bytesText, counted, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";
import { namesOf } from "./import.ts";

/** Whether the fleet could read everything. What retention had removed is not missing. */
export function isWholeExport(summary: ExportSummary): boolean {
  const { lost, unreadable, artifacts_lost, records_lost } = summary;
  const { signature_problems, signatures_unread, esignature_problems } = summary;
  const unproved = signature_problems + signatures_unread + esignature_problems;
  return lost + unreadable + artifacts_lost + records_lost + unproved === 0;
}

/** `fleet` is the name of the program in printed commands. */
export function renderExport(
  path: string,
  summary: ExportSummary,
  { view, fleet: program }: { readonly view: View; readonly fleet: string },
): string {
  const { colors } = view;
  const { tasks, versions, entries, handoffs, lost, removed, unreadable, fleet, tenant, exported_at } =
    summary;
  const { artifacts, artifact_bytes, artifacts_lost, lost_artifacts } = summary;
  const { records, records_lost, missions_without_records } = summary;
  const missing = [
    ...(lost > 0 ? [`${counted(lost, "version")} of checkpoints`] : []),
    ...(records_lost > 0 ? [`${counted(records_lost, "record")} of missions`] : []),
    ...(unreadable > 0 ? [counted(unreadable, "task")] : []),
    ...(artifacts_lost > 0 ? [counted(artifacts_lost, "artifact")] : []),
  ].join(" and ");
  const { signature_problems: unproved, signatures_unread: unread } = summary;
  return [
    missing === ""
      ? `${colors.green("✓")} ${plain(path)} is whole: every hash and every audit chain in it is right.`
      : `${colors.yellow("!")} ${plain(path)} is not damaged, but it is not whole: the fleet could not read ${missing}.`,
    field("Of", `tenant ${tenant} of fleet ${plain(fleet ?? "unknown")}, at ${plain(exported_at)}`, view),
    field("Tasks", counted(tasks, "task"), view),
    field(
      "With",
      `${counted(versions, "version")} of checkpoints, ${counted(entries, "audit entry", "audit entries")}, ${counted(handoffs, "handoff")}`,
      view,
    ),
    field("Signed", signedText(summary), view),
    ...(unproved === 0
      ? []
      : [
          colors.red(`The signature of ${counted(unproved, "entry", "entries")} is lost or does not verify.`),
        ]),
    ...(unread === 0
      ? []
      : [
          colors.yellow(
            `The signatures of ${counted(unread, "signed entry", "signed entries")} are not in the file: the reader was of an older version. Export again after its upgrade.`,
          ),
        ]),
    ...bulletList(
      "Electronic signatures",
      summary.electronic_signatures.map(
        (block) =>
          `task ${plain(block.task_id)}, ${shownId(block.checkpoint_id)} version ${block.version}: ${signatureBlockText(block, view)}`,
      ),
      view,
    ),
    ...(records === 0 ? [] : [field("Missions", counted(records, "record"), view)]),
    ...(artifacts === 0
      ? []
      : [field("Artifacts", `${counted(artifacts, "artifact")}, ${bytesText(artifact_bytes)}`, view)]),
    ...(removed === 0
      ? []
      : [field("Without", `${counted(removed, "version")} that retention had removed`, view)]),
    ...(missions_without_records === 0
      ? []
      : [colors.yellow(`Of ${counted(missions_without_records, "mission")} the file has no records.`)]),
    ...bulletList("Lost artifacts", namesOf(lost_artifacts), view),
    ...(artifacts_lost === 0
      ? []
      : [`Next: store these files again with \`${program} artifact put FILE\`, then export again.`]),
  ].join("\n");
}

function signedText({ signed, unsigned, signing_keys: keys }: ExportSummary): string {
  const entries = counted(signed, "entry", "entries");
  const by = keys.length === 0 ? "" : ` by ${keys.map(shortKeyId).join(", ")}`;
  return `${entries}${by}${unsigned === 0 ? "" : `; ${counted(unsigned, "entry", "entries")} unsigned`}`;
}

export function renderFault(path: string, { line, problem }: ExportFault, { colors }: View): string {
  return `${colors.red("✗")} ${plain(path)} is damaged: line ${line}: ${plain(problem)}`;
}
