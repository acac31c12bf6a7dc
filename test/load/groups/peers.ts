// LangGraph's savers beside the fleet: the same states, the same number in flight, on disk before the acknowledgement, in the same run.
// They take turns, so that a disturbance of the machine does not meet one of them alone.

import type { Group } from "../measure/table.ts";
import { type Row, row, TARGETS } from "../measure/targets.ts";
import { type Contender, startOwnFleet, startPostgresSaver, startSqliteSavers } from "../peers/contenders.ts";
import { type PeerFigures, peerRows, ratioRow } from "../peers/rows.ts";
import type { Session } from "../session.ts";

/** Odd, so that the median is a measured figure. */
const ROUNDS = 3;

interface Round {
  readonly perSecond: number;
  readonly write: PeerFigures["write"];
  readonly latest: PeerFigures["latest"];
  readonly failed: number;
}

export async function measurePeers(session: Session): Promise<Group> {
  session.log("peers: installing LangGraph's savers");
  const started = [await startPostgresSaver(session), ...(await startSqliteSavers(session))];
  const peers = started.filter((one) => one !== null);
  const fleet = await startOwnFleet(session);
  const contenders = [fleet, ...peers];
  const rounds = contenders.map((): Round[] => []);
  for (let n = 0; n < ROUNDS; n += 1)
    for (const [i, contender] of contenders.entries()) {
      session.log(`peers: ${contender.name}, round ${n + 1} of ${ROUNDS}`);
      rounds[i]!.push(await measureRound(session, contender));
    }
  for (const contender of contenders) await contender.stop();
  const figures = contenders.map(({ name, promise }, i) => ({ name, promise, ...medians(rounds[i]!) }));
  const own = figures[0]!;
  const ratios = peers.map(({ isJudged }, i): Row => ratioRow(own, figures[i + 1]!, isJudged));
  const failed = rounds.flat().reduce((sum, one) => sum + one.failed, 0);
  const versions = [...new Set(peers.flatMap(({ version }) => version ?? []))].join("; ");
  return {
    name: "peers",
    about: `states of 4 KB by 1,000 agents, each with one write in flight, in turns; medians of ${ROUNDS} rounds${versions && `; ${versions}`}`,
    rows: [...figures.flatMap(peerRows), ...ratios, row("failed", failed, "requests", TARGETS.failed)],
  };
}

async function measureRound(session: Session, contender: Contender): Promise<Round> {
  const writes = await contender.write({ warmUpSeconds: session.seconds(2), seconds: session.seconds(8) });
  await contender.rest();
  const latest = await contender.latest(session.seconds(2));
  return {
    perSecond: writes.perSecond,
    write: writes.latency,
    latest,
    failed: writes.failed + latest.failed,
  };
}

function medians(rounds: readonly Round[]): Omit<PeerFigures, "name" | "promise"> {
  const median = (of: (round: Round) => number): number =>
    rounds.map(of).sort((a, b) => a - b)[Math.floor(rounds.length / 2)]!;
  return {
    perSecond: median((one) => one.perSecond),
    write: { p50: median(({ write }) => write.p50), p99: median(({ write }) => write.p99) },
    latest: { p50: median(({ latest }) => latest.p50), p99: median(({ latest }) => latest.p99) },
  };
}
