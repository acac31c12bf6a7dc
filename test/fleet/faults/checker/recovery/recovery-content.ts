/** The check of the served content: every checkpoint that an agent read or resumed from equals a committed version. */
import { type Evidence, type Violation, versionName } from "../evidence.ts";

export function checkContent({ attempts, lifecycle, finalState }: Evidence): Violation[] {
  const written = new Map<string, string | null>();
  for (const { task, entries } of finalState.tasks.values()) {
    for (const { checkpoint_id, version, new_hash } of entries)
      if (new_hash !== null) written.set(`${task} ${versionName(checkpoint_id, version)}`, new_hash);
  }
  const served = [
    ...attempts.flatMap(({ task, agent, op, seen }) =>
      (seen?.versions ?? []).map((one) => ({ task, agent, op, ...one })),
    ),
    ...lifecycle.flatMap(({ task, agent, from }) =>
      from === undefined ? [] : [{ task, agent, op: "resume", ...from }],
    ),
  ];
  return served
    .filter(
      ({ task, checkpoint_id, version, hash }) =>
        written.get(`${task} ${versionName(checkpoint_id, version)}`) !== hash,
    )
    .map(({ task, agent, op, checkpoint_id, version }) => ({
      kind: "corrupt_served",
      task,
      text: "an agent received a checkpoint that was never written",
      details: { agent, op, checkpoint_id, version },
    }));
}
