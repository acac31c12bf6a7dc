// The engine of the store and the bus alone, with the bytes of a create command. All other figures are compared with these.

import type { Group } from "../measure/table.ts";
import { type Row, row } from "../measure/targets.ts";
import type { RawFoundationdbJobs } from "../programs/raw-foundationdb.ts";
import type { RawLmdbJobs } from "../programs/raw-lmdb.ts";
import type { RawNatsJobs } from "../programs/raw-nats.ts";
import { AGENTS, type RawFigures, type Session } from "../session.ts";

/** The engine alone. */
interface RawEngine extends Pick<RawFigures, "commitsPerSecond" | "commitMs"> {
  readonly name: string;
  readonly sizes: Awaited<ReturnType<RawLmdbJobs["measure"]>>["sizes"];
  readonly rows: readonly Row[];
}

type Timed = Awaited<ReturnType<RawFoundationdbJobs["measure"]>>["raw"];

const ENGINES = { lmdb: measureLmdb, foundationdb: measureFoundationdb };

export async function measureRaw(session: Session): Promise<Group> {
  session.log("raw: commits");
  const { name, sizes, rows, commitsPerSecond, commitMs } = await ENGINES[session.storeName](session);
  session.log("raw: requests");
  const requests = await measureRequests(session, sizes);
  session.raw = {
    commitsPerSecond,
    commitMs,
    writeRequestMs: requests.writeAlone.latency.p50,
    getRequestMs: requests.getAlone.latency.p50,
  };
  const { many, writeAlone, getAlone } = requests;
  return {
    name: "raw",
    about: `${name} and NATS alone, with the bytes of one create command`,
    rows: [
      row("one checkpoint, canonical", sizes.canonical, "bytes"),
      ...rows,
      row("request and answer of one create", sizes.createRequest + sizes.createAnswer, "bytes"),
      row("NATS requests, 1,000 in flight", many.perSecond, "/s"),
      row("NATS requests, 1,000 in flight, p50", many.latency.p50, "ms"),
      row("NATS requests, 1,000 in flight, p99", many.latency.p99, "ms"),
      row("NATS request alone, create, p50", writeAlone.latency.p50, "ms"),
      row("NATS request alone, get, p50", getAlone.latency.p50, "ms"),
    ],
  };
}

const load = (session: Session) => ({
  agents: AGENTS,
  rounds: session.options.quick ? 4 : 20,
  seconds: session.seconds(6),
});

async function measureLmdb(session: Session): Promise<RawEngine> {
  const engine = session.program<RawLmdbJobs>("raw-lmdb");
  const commits = await engine.run("measure", { folder: session.folder(), ...load(session) });
  await engine.stop();
  return {
    name: "LMDB",
    sizes: commits.sizes,
    commitsPerSecond: commits.inFlight.perSecond,
    commitMs: commits.alone.latency.p50,
    rows: [...sizeRows(commits), ...timeRows("LMDB commit", "LMDB commits", commits)],
  };
}

/** The engine, and the records layer on it. */
async function measureFoundationdb(session: Session): Promise<RawEngine> {
  const store = await session.emptyStore(session.folder());
  const clusterFile = store.url.slice("fdb:".length);
  const engine = session.program<RawFoundationdbJobs>("raw-foundationdb");
  const { raw, ours, ...commits } = await engine.run("measure", { clusterFile, ...load(session) });
  await engine.stop();
  await store.stop();
  return {
    name: "One FoundationDB node on this machine",
    sizes: commits.sizes,
    commitsPerSecond: raw.inFlight.perSecond,
    commitMs: raw.alone.latency.p50,
    rows: [
      ...sizeRows(commits),
      ...timeRows("FoundationDB commit", "FoundationDB commits", raw),
      ...timeRows("create by the records layer", "creates by the records layer", ours),
    ],
  };
}

function sizeRows(commits: { readonly writesPerCommit: number; readonly bytesPerCommit: number }): Row[] {
  return [
    row("writes of one create", commits.writesPerCommit, "keys"),
    row("bytes of one create, keys and values", commits.bytesPerCommit, "bytes"),
  ];
}

function timeRows(what: string, plural: string, { inFlight, alone }: Timed): Row[] {
  return [
    row(`${plural}, 1,000 in flight`, inFlight.perSecond, "/s"),
    row(`${plural}, 1,000 in flight, p50`, inFlight.latency.p50, "ms"),
    row(`${plural}, 1,000 in flight, p99`, inFlight.latency.p99, "ms"),
    row(`${what} alone, p50`, alone.latency.p50, "ms"),
    row(`${what} alone, p99`, alone.latency.p99, "ms"),
  ];
}

async function measureRequests(
  session: Session,
  { createRequest, createAnswer, getRequest, getAnswer }: RawEngine["sizes"],
) {
  const create = { requestBytes: createRequest, answerBytes: createAnswer };
  const get = { requestBytes: getRequest, answerBytes: getAnswer };
  const server = await session.nats();
  const answerer = session.program<RawNatsJobs>("raw-nats");
  const asker = session.program<RawNatsJobs>("raw-nats");
  const { url } = server;
  await answerer.run("answer", { url, answerBytes: createAnswer });
  await answerer.run("answer", { url, answerBytes: getAnswer });
  const ask = (shape: typeof create, inFlight: number, connections: number) =>
    asker.run("ask", { url, ...shape, inFlight, connections, seconds: session.seconds(4) });
  const many = await ask(create, AGENTS, 4);
  const writeAlone = await ask(create, 1, 1);
  const getAlone = await ask(get, 1, 1);
  await asker.stop();
  await answerer.stop();
  await server.stop();
  return { many, writeAlone, getAlone };
}
