/** Nothing is served that was not written: what agents go on from, and what they read, is byte for byte what was committed. */
import { type Evidence, type Violation, versionName } from "../evidence.ts";

export function checkContent({ attempts, lives, truth }: Evidence): Violation[] {
  const written = new Map<string, string | null>();
  for (const { task, entries } of truth.tasks.values()) {
    for (const { checkpoint_id, version, new_hash } of entries)
      if (new_hash !== null) written.set(`${task} ${versionName(checkpoint_id, version)}`, new_hash);
  }
  const served = [
    ...attempts.flatMap(({ task, agent, op, seen }) =>
      (seen?.versions ?? []).map((one) => ({ task, agent, op, ...one })),
    ),
    ...lives.flatMap(({ task, agent, from }) =>
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
      text: "an agent was served a checkpoint that nobody wrote so",
      details: { agent, op, checkpoint_id, version },
    }));
}
