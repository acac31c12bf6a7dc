// The result of `fleet doctor`: a line for each check, then each problem with its meaning and its remedy.

import { withoutPassword } from "../../../../shared/bus/connection.ts";
import {
  type CheckOutcome,
  type CheckState,
  isProblem,
  meaningOfCheck,
} from "../../commands/doctor/check-outcome.ts";
import { type DoctorFacts, isReached } from "../../commands/doctor/facts.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

const WORDS: Readonly<Record<CheckState, string>> = {
  ok: "ok",
  warning: "warning",
  failed: "failed",
  not_checked: "not checked",
};

/** The answer with --json. */
export function doctorData({ url, version, bus }: DoctorFacts, findings: readonly CheckOutcome[]) {
  const reached = isReached(bus) ? bus : undefined;
  const total = (state: CheckState) => findings.filter((one) => one.state === state).length;
  return {
    /** Every check was made, and none found a problem. */
    healthy: findings.every(({ state }) => state === "ok"),
    version,
    url: withoutPassword(url),
    ...(reached?.fleet !== undefined && { fleet: reached.fleet }),
    counts: {
      ok: total("ok"),
      warning: total("warning"),
      failed: total("failed"),
      not_checked: total("not_checked"),
    },
    checks: findings.map((one) => (isProblem(one) ? { ...one, meaning: meaningOfCheck(one) } : one)),
    services: (reached?.services ?? []).map(({ diagnosis, offsetMs, uncertaintyMs }) => ({
      service: diagnosis.service,
      instance: diagnosis.instance,
      version: diagnosis.version,
      node: diagnosis.node,
      uptime_ms: diagnosis.uptime_ms,
      clock_offset_ms: offsetMs,
      clock_uncertainty_ms: uncertaintyMs,
    })),
  };
}

export function renderDoctor(facts: DoctorFacts, findings: readonly CheckOutcome[], view: View): string {
  const { colors } = view;
  const paint = { ok: colors.green, warning: colors.yellow, failed: colors.red, not_checked: colors.dim };
  const rows = findings.map(({ state, code, found }) => [paint[state](WORDS[state]), code, plain(found)]);
  const problems = findings.filter(isProblem);
  const open = findings.filter(({ state }) => state === "not_checked");
  return [
    `Fleet ${plain(facts.version)}${facts.url === "" ? "" : ` at ${plain(withoutPassword(facts.url))}`}`,
    "",
    // A narrow terminal cuts these lines; what needs an operator is repeated in full below.
    ...tableLines(rows, { view, fit: [undefined, undefined, { least: 20 }] }),
    ...problems.flatMap((finding) => ["", ...problemLines(finding, paint[finding.state], view)]),
    ...openLines(open, view),
    "",
    summary(problems, open.length, view),
  ].join("\n");
}

function problemLines(problem: CheckOutcome, paint: (text: string) => string, { colors }: View): string[] {
  const { code, state, found, fix = "" } = problem;
  return [
    `${paint(WORDS[state])}  ${colors.bold(code)}: ${plain(found)}`,
    `  ${meaningOfCheck(problem)}`,
    ...(fix === "" ? [] : [`  ${colors.cyan("Fix:")} ${plain(fix)}`]),
  ];
}

/** The checks that could not be made, by their reason. */
function openLines(open: readonly CheckOutcome[], { colors }: View): string[] {
  const reasons = [...new Set(open.map(({ found }) => found))];
  return reasons.flatMap((reason) => {
    const those = open.filter(({ found }) => found === reason);
    const fix = those.find((one) => one.fix)?.fix;
    return [
      "",
      `${colors.dim(WORDS.not_checked)}  ${colors.bold(those.map(({ code }) => code).join(", "))}: ${plain(reason)}`,
      ...(fix === undefined ? [] : [`  ${colors.cyan("Fix:")} ${plain(fix)}`]),
    ];
  });
}

function summary(problems: readonly CheckOutcome[], open: number, { colors }: View): string {
  const rest = open === 0 ? "" : `; ${counted(open, "check")} could not be made`;
  if (problems.length === 0) return colors.green(`No problem found${rest}`);
  const failures = problems.filter(({ state }) => state === "failed").length;
  return `${colors.bold(counted(problems.length, "problem"))}, ${counted(failures, "failure")}${rest}`;
}
