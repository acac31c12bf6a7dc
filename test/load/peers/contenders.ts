// The stores of checkpoints that are compared: each starts, does the same work, and rests before the next one works.

import { join } from "node:path";
import { postgresProblem, startPostgres } from "../../harness/stores/postgres.ts";
import type { Summary } from "../measure/percentiles.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { LanggraphSaverJobs, SaverTarget } from "../programs/langgraph-saver.ts";
import { AGENTS, type Session } from "../session.ts";
import { installedSaver, type SaverKind, saverPackage, saverPackages } from "./installation.ts";

export interface WriteTime {
  readonly warmUpSeconds: number;
  readonly seconds: number;
}

export interface Contender {
  /** The same in every run, for comparisons. */
  readonly name: string;
  /** The versions behind the name. Null: those of this tree. */
  readonly version: string | null;
  readonly promise: string;
  /** Whether it keeps as much as the fleet at a power cut, behind a server. */
  readonly isJudged: boolean;
  write(
    time: WriteTime,
  ): Promise<{ readonly perSecond: number; readonly latency: Summary; readonly failed: number }>;
  /** Reads the newest checkpoint of one thread or task after the other. */
  latest(seconds: number): Promise<Summary & { readonly failed: number }>;
  /** Ends when the work that the writes left behind is done. */
  rest(): Promise<void>;
  stop(): Promise<void>;
}

const OWN_PROMISE =
  "durable; one owner by its fence; hash, audit entry, event and search terms with every write";
const NOTHING_ELSE = "no owner, fence, hash, audit entry or event";
/** As many as the pool has that the saver makes from an address. */
const POSTGRES_CONNECTIONS = 10;

export async function startOwnFleet(session: Session): Promise<Contender> {
  const fleet = await session.fleet(session.folder());
  const agents = session.program<AgentsJobs>("agents");
  await agents.run("connect", { url: fleet.busUrl, agents: AGENTS });
  return {
    name: "Fleet",
    version: null,
    promise: OWN_PROMISE,
    isJudged: false,
    write: (time) => agents.run("sustained", time),
    latest: (seconds) =>
      agents.run("reads", { op: "latest", tasks: AGENTS, perTask: 1, concurrency: 1, seconds }),
    rest: async () => void (await agents.run("settle", {})),
    async stop() {
      await agents.stop();
      await fleet.stop();
    },
  };
}

interface Saver {
  readonly kind: SaverKind;
  /** Of its packages. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
  readonly promise: string;
  readonly isJudged: boolean;
  readonly target: SaverTarget;
}

async function startSaver(
  session: Session,
  { kind, folder, target, ...described }: Saver,
): Promise<Contender> {
  const program = session.program<LanggraphSaverJobs>("langgraph-saver");
  await program.run("open", { folder, packageName: saverPackage(kind), target, threads: AGENTS });
  return {
    ...described,
    write: (time) => program.run("write", time),
    latest: (seconds) => program.run("latest", { seconds }),
    rest: async () => void (await program.run("rest", {})),
    stop: () => program.stop(),
  };
}

const versionOf = (kind: SaverKind): string =>
  `${saverPackage(kind)} ${saverPackages(kind)[saverPackage(kind)]}`;

/** Null, after one line with the reason: PostgreSQL cannot run here, or the saver cannot be installed. */
export async function startPostgresSaver(session: Session): Promise<Contender | null> {
  const problem = postgresProblem();
  if (problem !== null) {
    session.log(`peers: LangGraph's Postgres saver is skipped: ${problem}`);
    return null;
  }
  const folder = await installedSaver("postgres", session.log);
  if (folder === null) return null;
  const server = await session.keep(startPostgres({ durable: true }));
  const contender = await startSaver(session, {
    kind: "postgres",
    folder,
    name: "LangGraph Postgres saver",
    version: `${versionOf("postgres")} on PostgreSQL ${server.version}`,
    promise: `durable (fsync and synchronous_commit on); ${NOTHING_ELSE}`,
    isJudged: true,
    target: { kind: "postgres", url: server.url, connections: POSTGRES_CONNECTIONS },
  });
  return {
    ...contender,
    async stop() {
      await contender.stop();
      await server.stop();
    },
  };
}

/** With the promise of the others, and as it is installed. Empty, after one line with the reason: it cannot be installed. */
export async function startSqliteSavers(session: Session): Promise<Contender[]> {
  const folder = await installedSaver("sqlite", session.log);
  if (folder === null) return [];
  const saver = (mode: string, promise: string, isSynced: boolean) =>
    startSaver(session, {
      kind: "sqlite",
      folder,
      name: `LangGraph SQLite saver, ${mode}`,
      version: `${versionOf("sqlite")} on the SQLite of Node`,
      promise: `${promise}; one process; ${NOTHING_ELSE}`,
      isJudged: false,
      target: { kind: "sqlite", path: join(session.folder(), "saver.db"), isSynced },
    });
  return [
    await saver("synced", "durable (synchronous = FULL)", true),
    await saver("as installed", "the last writes are lost at a power cut (synchronous = NORMAL)", false),
  ];
}
