/**
 * The check of a rolling upgrade: no call of an agent ends with an error of the fleet. A refusal that follows from the state of a task, such as
 * FENCED, is an answer and no such error.
 */
import type { CallAttempt } from "../agents/history.ts";
import type { Violation } from "../checker/evidence.ts";

const ANSWERS: ReadonlySet<string> = new Set(["CONFLICT", "FENCED", "FINALIZED", "INVALID", "NOT_FOUND"]);

export function checkVisibleErrors(attempts: readonly CallAttempt[]): Violation[] {
  const own = attempts.filter(({ copy, agent }) => copy === undefined && isOfClients(agent));
  const visible = own.filter(
    ({ outcome, code }) => outcome === "unknown" || (outcome === "refused" && !ANSWERS.has(code ?? "")),
  );
  return visible.map(({ task, agent, op, outcome, code, begin, end }) => ({
    kind: "error_visible",
    task,
    text: "an agent saw an error of the fleet during the upgrade",
    details: { agent, op, outcome, code: code ?? null, ms: Math.round((end - begin) / 1_000) },
  }));
}

/** Workers and takers end on purpose during their calls, or contest them. */
const isOfClients = (agent: string): boolean => agent.startsWith("agents-") || agent.startsWith("http-");
