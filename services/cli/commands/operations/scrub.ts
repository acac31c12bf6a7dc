// `fleet scrub`: whether everything that is stored still verifies, when that was last looked at, and looking now.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { EndedScrubPass, ScrubFindingPage, ScrubStatus } from "../../../../shared/protocol/scrub.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

const POLL_MS = 300;
/** A watchdog that has just been killed leaves its duty to the next one after some seconds; longer, and there is none. */
const NOBODY_MS = 4 * LIMITS.duty_lease_ms;
/** Findings shown with the state; `scrub findings` shows all. */
const SHOWN = 10;

export function addScrub(program: Command, action: ActionFactory): void {
  const group = program
    .command("scrub")
    .summary("Show whether everything that is stored verifies.")
    .description(
      "Show when everything that is stored was last read and verified, how far that is now, and what was found damaged (exit 8).",
    )
    .action(action(status));
  withExamples(group, (fleet) => ({
    "When was everything last verified": `${fleet} scrub`,
    "For a monitor": `${fleet} scrub --json | jq '{last: .last.ended_at, findings: .findings | length}'`,
    "Verify everything now": `${fleet} scrub start --wait`,
  }));
  const starting = group
    .command("start")
    .summary("Verify everything now.")
    .description(
      "Begin a pass over everything that is stored, at the scrubber's rate. One that is under way is finished first, because it has read some of it already.",
    )
    .option("--wait", "until it has ended (exit 0: all is sound, 8: something is damaged)")
    .action(action(start));
  withExamples(starting, (fleet) => ({
    "After a restore, or a fault of the disk": `${fleet} scrub start --wait`,
    "In a nightly job": `${fleet} scrub start --wait --json > report.json || ${fleet} scrub findings`,
  }));
  const listing = group
    .command("findings")
    .description(
      "List what was found damaged in the tenant and still is, by task (exit 8 when there is any).",
    )
    .addOption(limitOption(LIMITS.scrub_findings_limit_default, LIMITS.scrub_findings_limit_max))
    .option("--cursor <cursor>", "go on after an earlier page")
    .action(action(findings));
  withExamples(listing, (fleet) => ({
    "What is damaged": `${fleet} scrub findings`,
    "Which tasks": `${fleet} scrub findings --json | jq -r '.findings[].task_id' | sort -u`,
  }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  await showScrub(session, client, await client.admin.scrubStatus(session.deadline));
}

async function start(session: Session, { wait }: { readonly wait?: boolean }): Promise<void> {
  const client = await session.client();
  const asked = await client.admin.startScrub(session.deadline);
  const pass = asked.requested_pass;
  if (wait !== true || pass === null) return showAsked(session, asked);
  await showScrub(session, client, await waitFor(session, client, pass));
}

async function waitFor(session: Session, client: FleetClient, pass: number): Promise<ScrubStatus> {
  const { PROGRESS_END, progressLine } = await import("../../rendering/terminal/progress.ts");
  let attendedAt = performance.now();
  try {
    for (;;) {
      const found = await client.admin.scrubStatus(session.deadline);
      if ((found.last?.pass ?? 0) >= pass) return found;
      if (found.by !== null) attendedAt = performance.now();
      else if (performance.now() - attendedAt > NOBODY_MS) throw await nobody(pass);
      const { current, total } = found;
      // The one under way may be another that this one waits for.
      const what = current !== null && current.pass < pass ? "Finishing the pass before" : "Verifying";
      const done = { what, done: current?.checkpoints ?? 0, total: total.checkpoints };
      session.progress(progressLine(done, session.view));
      await sleep(POLL_MS);
    }
  } finally {
    session.progress(PROGRESS_END);
  }
}

async function nobody(pass: number): Promise<Error> {
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  return new FleetError("UNAVAILABLE", "no watchdog is running that could verify anything", {
    details: { requested_pass: pass },
  });
}

async function showAsked(session: Session, asked: ScrubStatus): Promise<void> {
  const { renderAsked } = await import("../../rendering/operations/scrub.ts");
  await session.show(asked, () => renderAsked(asked, session.programName, session.view));
}

/** With the first findings; the exit code says whether there are any, here or in another tenant. */
async function showScrub(session: Session, client: FleetClient, found: ScrubStatus): Promise<void> {
  const page = await client.admin.scrubFindings({ ...session.deadline, limit: SHOWN });
  const { renderScrub } = await import("../../rendering/operations/scrub.ts");
  await session.show({ ...found, findings: page.findings }, () =>
    renderScrub({ status: found, page, fleet: session.programName }, session.view),
  );
  if (isDamaged(found.last, page)) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}

function isDamaged(last: EndedScrubPass | null, page: ScrubFindingPage): boolean {
  return page.findings.length > 0 || (last?.findings ?? 0) > 0;
}

async function findings(
  session: Session,
  { limit, cursor }: { readonly limit?: number; readonly cursor?: string },
): Promise<void> {
  const client = await session.client();
  const page = await client.admin.scrubFindings({ ...session.deadline, limit, cursor });
  const { renderFindings } = await import("../../rendering/operations/scrub.ts");
  await session.show(page, () => renderFindings(page, nextPage(session, page.cursor), session.view));
  if (page.findings.length > 0) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
