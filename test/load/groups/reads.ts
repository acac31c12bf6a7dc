// Reads from a store in use: it is loaded before its fleet starts, and searched at several sizes to measure the growth.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ACCESS_LOG_MODES } from "../../../shared/protocol/access-log.ts";
import type { Program } from "../jobs.ts";
import { formatNumber, type Group } from "../measure/table.ts";
import { type Row, row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { LoaderJobs } from "../programs/loader.ts";
import type { FleetStore, Session } from "../session.ts";

const PER_TASK = 100;
const READERS = 16;
/** Well below the capacity of the fleet, so that the latency is that of a read and not of a queue. */
const READS_PER_SECOND = 500;
const SPAN_MS = 20 * 3_600_000;
/** A search that finds a full page even in the smallest store. */
const SEARCH = { share: 0.3, limit: 20 };

interface ReadSetup {
  readonly session: Session;
  /** The number of agents that wrote the checkpoints; each has one task in the smallest store. */
  readonly authors: number;
  readonly store: FleetStore;
  readonly fromMs: number;
}

interface SearchFigures {
  readonly size: number;
  readonly p50: number;
  readonly rows: readonly Row[];
}

export async function measureReads(session: Session): Promise<Group> {
  const sizes = session.options.quick ? [2_000, 20_000] : [10_000, 100_000];
  const authors = sizes[0]! / PER_TASK;
  const home = session.folder();
  const store = await session.emptyStore(home);
  const setup = { session, authors, store, fromMs: Date.now() - SPAN_MS - 3_600_000 };
  if (session.options.large) sizes.push(1_000_000);
  const rows: Row[] = [];
  const searches: SearchFigures[] = [];
  for (const [i, size] of sizes.entries()) {
    const loaded = await load(setup, sizes[i - 1] ?? 0, size);
    if (i > 0) rows.push(...loaded);
    const fleet = await session.fleetOn(store, home);
    rows.push(row(`start of a fleet with ${formatNumber(size)} stored`, fleet.startMs, "ms", TARGETS.start));
    const agents = session.program<AgentsJobs>("agents");
    await agents.run("connect", { url: fleet.busUrl, agents: READERS });
    await agents.run("settle", {});
    // The smaller store serves only to measure the growth.
    if (i === 1) rows.push(...(await readAll(session, agents, size)));
    searches.push(await search(setup, agents, size));
    await agents.stop();
    await fleet.stop();
    if (i === 1) rows.push(...(await logged(session, { store, home, tasks: size / PER_TASK })));
  }
  await store.stop();
  const growth = searches.slice(1).map((after, i) => {
    const before = searches[i]!;
    const what = `search p50 at ${formatNumber(after.size)} to ${formatNumber(before.size)}`;
    return row(what, after.p50 / before.p50, "×", TARGETS.search_growth);
  });
  return {
    name: "reads",
    about: `tasks of ${PER_TASK} checkpoints of 4 KB by ${authors} agents; nothing else runs`,
    rows: [...rows, ...searches.flatMap(({ rows }) => rows), ...growth],
  };
}

async function load(
  { session, authors, store, fromMs }: ReadSetup,
  from: number,
  to: number,
): Promise<Row[]> {
  session.log(`reads: loading ${formatNumber(to - from)} checkpoints`);
  const loader = session.program<LoaderJobs>("loader");
  const { createdPerSecond, indexedPerSecond } = await loader.run("load", {
    storeUrl: store.url,
    firstTask: from / PER_TASK,
    tasks: (to - from) / PER_TASK,
    perTask: PER_TASK,
    agents: authors,
    fromMs,
    spanMs: SPAN_MS,
  });
  await loader.stop();
  const size = formatNumber(to - from);
  return [
    row(`loading ${size} through the records layer`, createdPerSecond, "/s"),
    row(`indexing ${size}`, indexedPerSecond, "/s"),
  ];
}

async function readAll(session: Session, agents: Program<AgentsJobs>, size: number): Promise<Row[]> {
  session.log("reads: get, latest, history");
  const tasks = size / PER_TASK;
  await agents.run("loadIds", { tasks: Math.min(tasks, 50), of: tasks });
  const seconds = session.seconds(4);
  const read = (op: "get" | "latest" | "history", concurrency: number) =>
    agents.run("reads", { op, tasks, perTask: PER_TASK, concurrency, seconds });
  const one = await read("get", 1);
  const paced = await agents.run("pacedGets", { perSecond: READS_PER_SECOND, seconds });
  const many = await read("get", READERS);
  const latest = await read("latest", 1);
  const history = await read("history", 1);
  const { raw } = session;
  return [
    row("get by id, one at a time, p50", one.p50, "ms"),
    row("get by id, one at a time, p99", one.p99, "ms", TARGETS.get),
    row("get by id, one at a time, max", one.max, "ms"),
    ...(raw === null ? [] : [row("get p50 to raw request", one.p50 / raw.getRequestMs, "×")]),
    row(`get by id, ${READS_PER_SECOND}/s at random times, p50`, paced.p50, "ms"),
    row(`get by id, ${READS_PER_SECOND}/s at random times, p99`, paced.p99, "ms", TARGETS.get),
    row(`get by id, ${READS_PER_SECOND}/s at random times, max`, paced.max, "ms"),
    row(`get by id, as fast as ${READERS} readers can, p50`, many.p50, "ms"),
    row(`get by id, as fast as ${READERS} readers can, p99`, many.p99, "ms"),
    row(`get by id, as fast as ${READERS} readers can`, many.count / seconds, "/s"),
    row("latest, one at a time, p50", latest.p50, "ms"),
    row("latest, one at a time, p99", latest.p99, "ms", TARGETS.get),
    row(`history of ${PER_TASK}, p50`, history.p50, "ms"),
    row(`history of ${PER_TASK}, p99`, history.p99, "ms", TARGETS.history),
    row(
      "failed",
      one.failed + paced.failed + many.failed + latest.failed + history.failed,
      "requests",
      TARGETS.failed,
    ),
  ];
}

/** The cost of the access log: fleets on the same store, one for each policy. */
async function logged(
  session: Session,
  { store, home, tasks }: { readonly store: FleetStore; readonly home: string; readonly tasks: number },
): Promise<Row[]> {
  const rows: Row[] = [];
  const seconds = session.seconds(4);
  for (const mode of ACCESS_LOG_MODES) {
    session.log(`reads: access log ${mode}`);
    const policy = join(session.folder(), "policy.json");
    writeFileSync(policy, JSON.stringify({ access_log: mode }));
    const fleet = await session.fleetOn(store, home, { FLEET_POLICY: policy });
    const agents = session.program<AgentsJobs>("agents");
    await agents.run("connect", { url: fleet.busUrl, agents: READERS });
    await agents.run("loadIds", { tasks: Math.min(tasks, 50), of: tasks });
    const job = { op: "get", tasks, perTask: PER_TASK, seconds } as const;
    const one = await agents.run("reads", { ...job, concurrency: 1 });
    const many = await agents.run("reads", { ...job, concurrency: READERS });
    // With `strict` each answer waits for a commit.
    const target = mode === "strict" ? undefined : TARGETS.get;
    rows.push(
      row(`get by id, access log ${mode}, one at a time, p99`, one.p99, "ms", target),
      row(`get by id, access log ${mode}, as fast as ${READERS} readers can`, many.count / seconds, "/s"),
    );
    await agents.stop();
    await fleet.stop();
  }
  return rows;
}

async function search(
  { session, authors, fromMs }: ReadSetup,
  agents: Program<AgentsJobs>,
  size: number,
): Promise<SearchFigures> {
  session.log(`reads: search in ${formatNumber(size)}`);
  const { p50, p99, failed } = await agents.run("searches", {
    ...SEARCH,
    agents: authors,
    fromMs,
    spanMs: SPAN_MS,
    seconds: session.seconds(4),
  });
  const what = `search by agent and time, page of ${SEARCH.limit}, ${formatNumber(size)} stored`;
  const rows = [
    row(`${what}, p50`, p50, "ms"),
    row(`${what}, p99`, p99, "ms", TARGETS.search),
    ...(failed === 0 ? [] : [row(`${what}, failed`, failed, "requests", TARGETS.failed)]),
  ];
  return { size, p50, rows };
}
