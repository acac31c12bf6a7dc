// Prints the outcome of a command that writes a checkpoint.

import type { CheckpointOutcome } from "../../../shared/sdk/sdk.ts";
import type { Session } from "./session.ts";

/** `done`: the change in words, as in "Checkpoint created". `more`: further lines. With `quiet`, only the id is printed. */
export async function showOutcome(
  session: Session,
  outcome: CheckpointOutcome,
  { done, quiet, more = [] }: { done: string; quiet: boolean | undefined; more?: readonly string[] },
): Promise<void> {
  const { outcomeData, renderAdvice, renderOutcome } = await import("../rendering/checkpoints/outcome.ts");
  const { shownId } = await import("../rendering/terminal/text.ts");
  if (quiet && !session.json && outcome.outcome !== "committed") {
    const details = outcome.outcome === "spooled" ? { spool: outcome.spool } : {};
    session.warn({ code: "NOT_COMMITTED", text: `not yet applied, but ${outcome.outcome}`, details });
  }
  const request = `${session.programName} handoff create ${outcome.taskId}`;
  const advice = renderAdvice(outcome, request, session.view);
  await session.show(outcomeData(outcome), () =>
    quiet
      ? shownId(String(outcome.checkpointId))
      : [...renderOutcome(outcome, done, session.view), ...more, ...advice].join("\n"),
  );
}
