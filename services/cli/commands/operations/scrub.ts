// `fleet scrub`: the result of the last scrub of the store, its findings, and a new pass on request.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { EndedScrubPass, ScrubFindingPage, ScrubStatus } from "../../../../shared/protocol/scrub.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

const POLL_MS = 300;
/** After a kill, another watchdog gets the lease within seconds. After this time there is no watchdog. */
const NO_WATCHDOG_MS = 4 * LIMITS.leader_lease_ms;
/** The number of findings in the status; `scrub findings` lists them all. */
const SHOWN = 10;

export function addScrub(program: Command, action: ActionFactory): void {
  const group = program
    .command("scrub")
    .summary("Show whether the whole store is valid.")
    .description(
      "Show when the whole store was last verified, the progress of the current pass, and the damage found (exit 8: there is some).",
    )
    .action(action(status));
  withExamples(group, (fleet) => ({
    "The last pass and its findings": `${fleet} scrub`,
    "For a monitor": `${fleet} scrub --json | jq '{last: .last.ended_at, findings: .findings | length}'`,
    "Verify the store now": `${fleet} scrub start --wait`,
  }));
  const startCommand = group
    .command("start")
    .summary("Verify the whole store now.")
    .description(
      "Start a pass over the whole store, at the scrubber's rate. A pass in progress is finished first, because it has read part of the store already.",
    )
    .option("--wait", "wait until it has ended (exit 0: no damage, 8: damage)")
    .action(action(start));
  withExamples(startCommand, (fleet) => ({
    "After a restore or a disk fault": `${fleet} scrub start --wait`,
    "In a nightly job": `${fleet} scrub start --wait --json > report.json || ${fleet} scrub findings`,
  }));
  const findingsCommand = group
    .command("findings")
    .description(
      "List the damage in the tenant that the last passes found, by task (exit 8: there is some). A checkpoint that was in quarantine before a pass is no finding of it: `checkpoint list --all` names it in a warning.",
    )
    .addOption(limitOption(LIMITS.scrub_findings_limit_default, LIMITS.scrub_findings_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(findings));
  withExamples(findingsCommand, (fleet) => ({
    "All findings": `${fleet} scrub findings`,
    "The damaged tasks": `${fleet} scrub findings --json | jq -r '.findings[].task_id' | sort -u`,
  }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  await showScrub(session, client, await client.admin.scrubStatus(session.deadline));
}

async function start(session: Session, { wait }: { readonly wait?: boolean }): Promise<void> {
  const client = await session.client();
  const requested = await client.admin.startScrub(session.deadline);
  const pass = requested.requested_pass;
  if (wait !== true || pass === null) return showRequestedPass(session, requested);
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
      else if (performance.now() - attendedAt > NO_WATCHDOG_MS) throw await noWatchdog(pass);
      const { current, total } = found;
      // The current pass may be an earlier one that the requested pass waits for.
      const what = current !== null && current.pass < pass ? "Finishing the earlier pass" : "Verifying";
      const done = { what, done: current?.checkpoints ?? 0, total: total.checkpoints };
      session.progress(progressLine(done, session.view));
      await sleep(POLL_MS);
    }
  } finally {
    session.progress(PROGRESS_END);
  }
}

async function noWatchdog(pass: number): Promise<Error> {
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  return new FleetError("UNAVAILABLE", "no watchdog is running, and only a watchdog scrubs the store", {
    details: { requested_pass: pass },
  });
}

async function showRequestedPass(session: Session, requested: ScrubStatus): Promise<void> {
  const { renderRequestedPass } = await import("../../rendering/operations/scrub.ts");
  await session.show(requested, () => renderRequestedPass(requested, session.programName, session.view));
}

/** Shows the status with the first findings. The exit code reports damage in any tenant. */
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
  const next = nextPage(session, page.cursor);
  const found = await client.admin.scrubStatus(session.deadline);
  const { renderFindings } = await import("../../rendering/operations/scrub.ts");
  const report = { page, next, status: found, fleet: session.programName };
  await session.show(page, () => renderFindings(report, session.view));
  if (page.findings.length > 0) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
