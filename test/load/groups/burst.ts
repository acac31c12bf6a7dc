// A burst: 1,000 agents write a checkpoint at the same instant, as after a common event.

import { summarize } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import { AGENTS, type Session } from "../session.ts";

const ROUNDS = { full: 15, quick: 5 };

export async function measureBurst(session: Session): Promise<Group> {
  const { agents } = await session.writers();
  const rounds = session.options.quick ? ROUNDS.quick : ROUNDS.full;
  session.log(`burst: ${rounds} rounds`);
  const lasts: number[] = [];
  const latencies: number[] = [];
  let fewest = AGENTS;
  // The first round warms up code that only a burst reaches.
  for (let round = 0; round <= rounds; round += 1) {
    const result = await agents.run("burst", {});
    await agents.run("settle", {});
    fewest = Math.min(fewest, result.committed);
    if (round === 0) continue;
    lasts.push(result.last);
    latencies.push(...result.latencies);
  }
  const last = summarize(lasts);
  const { raw } = session;
  const rawMs = raw && (AGENTS / raw.commitsPerSecond) * 1_000;
  return {
    name: "burst",
    about: "1,000 checkpoints of 4 KB of 1,000 tasks at the same instant",
    rows: [
      row("committed, in the worst round", fewest, "checkpoints", TARGETS.burst_committed),
      row("last one committed, p50 of the rounds", last.p50, "ms", TARGETS.burst_last),
      row("last one committed, worst round", last.max, "ms", TARGETS.burst_last),
      row("each checkpoint, p50", summarize(latencies).p50, "ms"),
      row("each checkpoint, p99", summarize(latencies).p99, "ms"),
      ...(rawMs === null ? [] : [row("last one committed to 1,000 raw commits", last.p50 / rawMs, "×")]),
    ],
  };
}
