// Whether the access log of the tenant is written, and whether processes have lost entries.

import { ACCESS_LOSSES_KEPT_DAYS } from "../../../../../shared/protocol/access-log.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import { counted } from "../../../rendering/terminal/text.ts";
import { type CheckOutcome, notChecked, sound, warning } from "../check-outcome.ts";
import type { BusFacts, DoctorFacts } from "../facts.ts";

/** Older losses are in the verification of the log. */
const DAYS = ACCESS_LOSSES_KEPT_DAYS;
const DAY_MS = 86_400_000;
/** A process that runs closes its session after a time without an entry, as soon as the store accepts it. */
const CLOSED_WITHIN_MS = LIMITS.access_log_idle_ms + 240_000;

export function checkAccessLog(
  { accessLog }: BusFacts,
  { program, nowMs }: Pick<DoctorFacts, "program" | "nowMs">,
): readonly CheckOutcome[] {
  if ("problem" in accessLog) return [notChecked("access.log", accessLog.problem, accessLog.fix)];
  const { mode, sessions } = accessLog;
  if (mode === "off")
    return [
      warning(
        "access.log",
        "the policy of the tenant has switched it off: neither reads of content nor refused requests are recorded",
        'Set "access_log" of the tenant to "batched" or "strict" in the policy (FLEET_POLICY), and restart the services.',
      ),
    ];
  const recent = sessions.filter(({ at }) => nowMs - Date.parse(at) < DAYS * DAY_MS);
  const lost = recent.reduce((sum, one) => sum + (one.lost ?? 0), 0);
  const killed = recent.filter(
    ({ state, at }) => state === "open" && nowMs - Date.parse(at) > CLOSED_WITHIN_MS,
  ).length;
  if (lost === 0 && killed === 0)
    return [sound("access.log", `it is written (${mode}), and no process has lost entries in ${DAYS} days`)];
  const found = [
    ...(lost > 0 ? [`processes have lost ${counted(lost, "entry", "entries")}`] : []),
    ...(killed > 0
      ? [
          `${counted(killed, "process", "processes")} ended without a closed session, and may have lost the last entries`,
        ]
      : []),
  ];
  const fix = `\`${program} audit verify --access\` names the processes and times; the log of the services has the reasons.`;
  return [warning("access.log", `in ${DAYS} days, ${found.join(", and ")}`, fix)];
}
