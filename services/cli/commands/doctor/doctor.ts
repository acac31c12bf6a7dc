// `fleet doctor`: what is wrong with the deployment, and how to fix it. It changes nothing.

import { type Command, Option } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { FINDINGS_EXIT } from "../../runtime/usage.ts";
import { REQUIREMENTS, type Requirement } from "./requirements.ts";

export function addDoctor(program: Command, action: ActionFactory): void {
  const command = program
    .command("doctor")
    .summary("Find what is wrong with the deployment, and how to fix it.")
    .description(
      "Check this machine, the bus, the store and every service: versions, sync policy, copies of streams, encryption, signing keys, rights, clocks, disks, backlogs and the health of FoundationDB. " +
        "It changes nothing. What cannot be checked is named with the reason, and is not counted as healthy (exit 0: no problem; 1: a warning or a failure).",
    )
    .addOption(
      new Option("--require <what...>", "fail unless the store has this")
        .choices(REQUIREMENTS)
        .default([], "nothing"),
    )
    .action(action(doctor));
  withExamples(command, (fleet) => ({
    "The fleet of FLEET_URL, or that of this folder": `${fleet} doctor`,
    "A cluster, with the credentials of an operator": `FLEET_NATS_CREDS=operator.creds ${fleet} doctor --url tls://nats.example.org:4222`,
    "In a team that must encrypt its store": `${fleet} doctor --require encryption`,
    "The problems, for a script": `${fleet} doctor --json | jq '.checks[] | select(.state == "failed" or .state == "warning")'`,
  }));
}

async function doctor(
  session: Session,
  { require: required }: { readonly require: readonly Requirement[] },
): Promise<void> {
  const [{ isProblem }, { collectFacts }, { runChecks }, { renderDoctor, doctorData }] = await Promise.all([
    import("./check-outcome.ts"),
    import("./facts.ts"),
    import("./all-checks.ts"),
    import("../../rendering/doctor/doctor.ts"),
  ]);
  const facts = await collectFacts(session);
  const findings = runChecks(facts, required);
  const data = doctorData(facts, findings);
  await session.show(data, () => renderDoctor(facts, findings, session.view));
  if (findings.some(isProblem)) session.exitCode = FINDINGS_EXIT;
}
