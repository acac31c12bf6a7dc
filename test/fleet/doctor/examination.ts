// Runs `fleet doctor` and reads its findings.

import type { CheckCode, CheckState } from "../../../services/cli/commands/doctor/check-outcome.ts";
import { callCli } from "../../services/cli/call.ts";

export interface ReportedCheck {
  readonly code: CheckCode;
  readonly state: CheckState;
  readonly found: string;
  readonly meaning?: string;
  readonly fix?: string;
}

export interface DoctorReport {
  readonly exit: number | null;
  readonly healthy: boolean;
  readonly counts: Readonly<Record<CheckState, number>>;
  readonly checks: readonly ReportedCheck[];
  readonly services: readonly {
    readonly service: string;
    readonly instance: string;
    readonly clock_offset_ms: number;
    readonly clock_uncertainty_ms: number;
  }[];
}

/** On a busy machine a service takes seconds to answer. The command waits no longer than for the last connected one. */
const BUSY = "20s";
/** For a service that never answers. */
export const BRIEF = "6s";

/** Standard error is empty, so that a script can read the answer. */
export async function examine(env: Record<string, string>, timeout = BUSY): Promise<DoctorReport> {
  const { exit, out, err } = await callCli(["doctor", "--json", "--timeout", timeout], { env });
  if (err !== "") throw new Error(`fleet doctor ended with ${exit}: ${err}`);
  return { exit, ...JSON.parse(out) } as DoctorReport;
}

export const checksOf = ({ checks }: DoctorReport, code: CheckCode): readonly ReportedCheck[] =>
  checks.filter((one) => one.code === code);

/** The warnings and failures, in short. */
export const problemsOf = ({ checks }: DoctorReport): string[] =>
  checks
    .filter(({ state }) => state === "warning" || state === "failed")
    .map(({ code, state }) => `${state} ${code}`);
