/**
 * Verifies that the audit log has the entries of a chain at their places. An entry after the last place may not be in the
 * log yet; its delay is measured elsewhere.
 */
import type { ScrubFinding } from "../../../protocol/scrub.ts";
import { type LogProblem, logProblems } from "../../audit-log/log-problems.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";

const TEXTS: Readonly<Record<LogProblem, string>> = {
  place: "its place in the audit log is lost",
  tile: "its tile of the audit log is lost or damaged",
  other: "the audit log has another entry at its place",
};

/** `entries`: those of the task, or of the tenant's chain (`task` null), from one read. */
export async function verifyLogged(
  scrub: TaskScrub,
  task: string | null,
  entries: Parameters<typeof logProblems>[3],
): Promise<void> {
  const kind: ScrubFinding["kind"] = task === null ? "tenant_audit" : "audit";
  const problems = await logProblems(scrub.reader, scrub.keys, task, entries);
  for (const [seq, problem] of problems) scrub.note(ofTask(kind, `entry ${seq}: ${TEXTS[problem]}`));
}
