/**
 * Recoveries: nobody who lives loses a task, nobody who is gone keeps one, nothing goes on from what is corrupt, and nothing goes on for
 * ever. It is checked on the entries in the trails, the commands as they were sent, the alerts, and what the agents went through.
 */
import type { Evidence, Violation } from "../evidence.ts";
import { checkBudgets } from "./recovery-budget.ts";
import { checkContent } from "./recovery-content.ts";
import { checkRecoveryEnds } from "./recovery-ends.ts";
import { checkFailures } from "./recovery-failures.ts";
import { recoveriesOf } from "./recovery-history.ts";

export function checkRecoveries(evidence: Evidence): Violation[] {
  const stories = recoveriesOf(evidence.truth);
  return [
    ...checkFailures(evidence, stories),
    ...checkBudgets(evidence, stories),
    ...checkRecoveryEnds(evidence, stories),
    ...checkContent(evidence),
  ];
}
