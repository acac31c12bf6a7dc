/**
 * The checks of the recoveries: no healthy agent loses a task, no failed agent keeps one, no task continues from a corrupt checkpoint, and no
 * task is attempted for ever. The checks use the audit entries, the sent commands, the alerts and the lifecycle of the agents.
 */
import type { Evidence, Violation } from "../evidence.ts";
import { checkBudgets } from "./recovery-budget.ts";
import { checkContent } from "./recovery-content.ts";
import { checkRecoveryEnds } from "./recovery-ends.ts";
import { checkFailures } from "./recovery-failures.ts";
import { recoveryHistories } from "./recovery-history.ts";

export function checkRecoveries(evidence: Evidence): Violation[] {
  const histories = recoveryHistories(evidence.finalState);
  return [
    ...checkFailures(evidence, histories),
    ...checkBudgets(evidence, histories),
    ...checkRecoveryEnds(evidence, histories),
    ...checkContent(evidence),
  ];
}
