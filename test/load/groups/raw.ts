// The engine of the store and the bus alone, with the bytes of a create command. All other figures are compared with these.

import type { Group } from "../measure/table.ts";
import { row } from "../measure/targets.ts";
import type { RawLmdbJobs } from "../programs/raw-lmdb.ts";
import type { RawNatsJobs } from "../programs/raw-nats.ts";
import { AGENTS, type Session } from "../session.ts";

export async function measureRaw(session: Session): Promise<Group> {
  session.log("raw: commits");
  const engine = session.program<RawLmdbJobs>("raw-lmdb");
  const commits = await engine.run("measure", {
    folder: session.folder(),
    agents: AGENTS,
    rounds: session.options.quick ? 4 : 20,
    seconds: session.seconds(6),
  });
  await engine.stop();

  session.log("raw: requests");
  const { createRequest, createAnswer, getRequest, getAnswer } = commits.sizes;
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

  session.raw = {
    commitsPerSecond: commits.inFlight.perSecond,
    commitMs: commits.alone.latency.p50,
    writeRequestMs: writeAlone.latency.p50,
    getRequestMs: getAlone.latency.p50,
  };
  return {
    name: "raw",
    about: "LMDB and NATS alone, with the bytes of one create command",
    rows: [
      row("one checkpoint, canonical", commits.sizes.canonical, "bytes"),
      row("writes of one create", commits.writesPerCommit, "keys"),
      row("bytes of one create, keys and values", commits.bytesPerCommit, "bytes"),
      row("request and answer of one create", createRequest + createAnswer, "bytes"),
      row("LMDB commits, 1,000 in flight", commits.inFlight.perSecond, "/s"),
      row("LMDB commits, 1,000 in flight, p50", commits.inFlight.latency.p50, "ms"),
      row("LMDB commits, 1,000 in flight, p99", commits.inFlight.latency.p99, "ms"),
      row("LMDB commit alone, p50", commits.alone.latency.p50, "ms"),
      row("LMDB commit alone, p99", commits.alone.latency.p99, "ms"),
      row("NATS requests, 1,000 in flight", many.perSecond, "/s"),
      row("NATS requests, 1,000 in flight, p50", many.latency.p50, "ms"),
      row("NATS requests, 1,000 in flight, p99", many.latency.p99, "ms"),
      row("NATS request alone, create, p50", writeAlone.latency.p50, "ms"),
      row("NATS request alone, get, p50", getAlone.latency.p50, "ms"),
    ],
  };
}
