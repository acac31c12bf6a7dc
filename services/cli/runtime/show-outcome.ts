// The end of every command that changes something: what it came to.

import type { CheckpointOutcome } from "../../../shared/sdk/sdk.ts";
import type { Session } from "./session.ts";

/** `more`: lines below what every outcome says. With `quiet` only the id is printed. */
export async function showOutcome(
  session: Session,
  outcome: CheckpointOutcome,
  { done, quiet, more = [] }: { done: string; quiet: boolean | undefined; more?: readonly string[] },
): Promise<void> {
  const { outcomeData, renderOutcome } = await import("../rendering/checkpoints/outcome.ts");
  const { shownId } = await import("../rendering/terminal/text.ts");
  if (quiet && !session.json && outcome.outcome !== "committed") {
    session.warn({ code: "NOT_COMMITTED", text: `not carried out yet, but ${outcome.outcome}`, details: {} });
  }
  await session.show(outcomeData(outcome), () =>
    quiet
      ? shownId(String(outcome.checkpointId))
      : [...renderOutcome(outcome, done, session.view), ...more].join("\n"),
  );
}
