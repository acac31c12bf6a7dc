// The cost of credentials, TLS, signatures and encryption at rest: fleets with and without each of them are measured in turn.

import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import type { Program } from "../jobs.ts";
import { processorTime } from "../measure/cpu-time.ts";
import { summarize } from "../measure/percentiles.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs, Identified } from "../programs/agents.ts";
import type { MeasuredFleet } from "../programs/fleet.ts";
import type { Session } from "../session.ts";

const IN_FLIGHT = 1_000;
/** An odd number, so that one of them is the median. */
const ROUNDS = 5;

interface Round {
  /** Commits per second while the fleet leaves publishing and indexing for later. */
  readonly atOnce: number;
  /** Commits per second until everything was published and indexed. */
  readonly sustained: number;
  /** µs per commit. */
  readonly processorTime: number;
}

interface Side {
  readonly what: string;
  readonly agents: Program<AgentsJobs>;
  readonly fleet: MeasuredFleet;
  readonly rounds: Round[];
  failed: number;
}

export async function measureAccess(session: Session): Promise<Group> {
  session.log("access: starting fleets with and without credentials, TLS, signatures and encryption");
  const open = await started(session, "without credentials", { FLEET_AUTH: "off" });
  const guarded = await started(session, "with credentials", { FLEET_AUTH: "on" });
  const encrypted = await started(session, "with credentials and TLS", {
    FLEET_AUTH: "on",
    ...certificates(session.folder()),
  });
  const unsigned = await started(session, "without credentials and signatures", {
    FLEET_AUTH: "off",
    FLEET_SIGNING_KEY: "off",
  });
  const sealed = await started(session, "without credentials, with encryption at rest", {
    FLEET_AUTH: "off",
    FLEET_ENCRYPTION_KEY: `file:${rootKey(session.folder())}`,
  });
  const sides = [unsigned, open, sealed, guarded, encrypted];
  for (let round = 1; round <= ROUNDS; round += 1) {
    session.log(`access: round ${round} of ${ROUNDS}`);
    // In turn forwards and backwards, so that a slow drift of the machine cancels out.
    for (const side of round % 2 === 0 ? sides.toReversed() : sides) await measure(session, side);
  }
  for (const { agents, fleet } of sides) {
    await agents.stop();
    await fleet.stop();
  }
  const middle = ({ rounds }: Side, of: keyof Round) => summarize(rounds.map((round) => round[of])).p50;
  // Compared within each round, so that a disturbance of the machine distorts one round only.
  const loss = (side: Side, from: Side, of: "atOnce" | "sustained" = "sustained") =>
    100 * summarize(side.rounds.map((round, index) => 1 - round[of] / from.rounds[index]![of])).p50;
  return {
    name: "access",
    about: `credentials, TLS, signatures and encryption at rest, compared with fleets without; ${ROUNDS} rounds in turn, 1,000 writes in flight, 4 KB; medians; losses are of sustained commits`,
    rows: [
      ...sides.map((side) => row(`commits ${side.what}, sustained`, middle(side, "sustained"), "/s")),
      ...sides.map((side) => row(`commits ${side.what}, at once`, middle(side, "atOnce"), "/s")),
      row("loss through signatures", loss(open, unsigned), "%", TARGETS.signatures),
      row("loss through encryption at rest", loss(sealed, open), "%"),
      row("loss through signatures and encryption at rest", loss(sealed, unsigned), "%", TARGETS.compliance),
      row("loss through signatures and encryption at rest, at once", loss(sealed, unsigned, "atOnce"), "%"),
      row("loss through credentials", loss(guarded, open), "%"),
      row("loss through credentials and TLS", loss(encrypted, open), "%", TARGETS.access),
      ...sides.map((side) =>
        row(
          `processor time of fleet and nats-server ${side.what}`,
          middle(side, "processorTime"),
          "µs/commit",
        ),
      ),
      row(
        "failed",
        sides.reduce((sum, { failed }) => sum + failed, 0),
        "requests",
        TARGETS.failed,
      ),
    ],
  };
}

function certificates(dir: string) {
  makeAuthority(dir, "ca");
  makeCertificate(dir, "server");
  return {
    FLEET_NATS_SERVER_CERT: join(dir, "server.pem"),
    FLEET_NATS_SERVER_KEY: join(dir, "server.key"),
    FLEET_NATS_CA: join(dir, "ca.pem"),
  };
}

function rootKey(dir: string): string {
  const path = join(dir, "root.key");
  writeFileSync(path, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
  return path;
}

async function started(
  session: Session,
  what: string,
  settings: Readonly<Record<string, string>>,
): Promise<Side> {
  const home = session.folder();
  const fleet = await session.fleet(home, settings);
  const agents = session.program<AgentsJobs>("agents");
  const { FLEET_AUTH, FLEET_NATS_CA: caFile } = settings;
  const identified: Identified = FLEET_AUTH === "off" ? {} : { home, caFile };
  await agents.run("connect", { url: fleet.busUrl, agents: IN_FLIGHT, identified });
  await agents.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, session.seconds(6)) });
  await agents.run("settle", {});
  return { what, agents, fleet, rounds: [], failed: 0 };
}

async function measure(session: Session, side: Side): Promise<void> {
  const { agents, fleet } = side;
  // The fleet has rested while the others were measured: its heap has shrunk, and what it needs first would count as the cost of a commit.
  const warmUp = await agents.run("sustained", { warmUpSeconds: 0, seconds: session.seconds(5) });
  await agents.run("settle", {});
  const used = [processorTime(fleet.pid), processorTime(fleet.natsServerPid)];
  const begin = performance.now();
  const run = await agents.run("sustained", { warmUpSeconds: 0, seconds: session.seconds(8) });
  // Publishing and indexing are part of the cost of a commit, and must not run beside the other fleet. A fleet sustains only the rate
  // at which it does them too: at any higher one they fall behind for as long as the load lasts.
  await agents.run("settle", {});
  const seconds = (performance.now() - begin) / 1_000;
  const processorUs = used.reduce((sum, time) => sum + (time() ?? 0), 0);
  side.rounds.push({
    atOnce: run.perSecond,
    sustained: run.committed / seconds,
    processorTime: processorUs / run.committed,
  });
  side.failed += warmUp.failed + run.failed;
}
