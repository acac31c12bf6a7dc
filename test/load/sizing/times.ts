// The processor time of each process for one commit and for one heartbeat, with services in processes of their own. It depends on the
// machine, so it is no part of a test.

import type { Times } from "../../../deploy/sizing/figures.ts";
import { environmentOf, startService } from "../../harness/processes/services.ts";
import { processorTime } from "../measure/cpu-time.ts";
import { inspectMachine } from "../measure/machine.ts";
import { readOptions } from "../options.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { FailingAgentsJobs } from "../programs/failing-agents.ts";
import { Session } from "../session.ts";

const WRITERS = 200;
const WARM_UP_S = 5;
const WRITE_S = 20;
const HEARTBEATS = { name: "healthy", count: 10_000 } as const;
const HEARTBEAT_WARM_UP_S = 12;
const HEARTBEAT_S = 30;

type Pids = Readonly<Record<"writer" | "reader" | "watchdog" | "nats_server", number>>;

/** The times of all processes since the call, for each of `count` events. */
function begin(pids: Pids): (count: number) => Record<keyof Pids, number> {
  const clocks = Object.entries(pids).map(([name, pid]) => [name, processorTime(pid)] as const);
  return (count) => {
    const each = clocks.map(([name, used]) => {
      const us = used();
      if (us === null) throw new Error("this system does not report the processor time of a process");
      return [name, Math.round((10 * us) / count) / 10];
    });
    return Object.fromEntries(each) as Record<keyof Pids, number>;
  };
}

export async function measureTimes(): Promise<Times> {
  const session = new Session(readOptions(["--only", "raw"])!, "lmdb");
  try {
    const { cpu, cores, node, nats_server, busy_percent } = await inspectMachine();
    const nats = await session.nats();
    const env = {
      ...environmentOf({ busUrl: nats.url, storeUrl: `lmdb:${session.folder()}/store?shared` }),
      FLEET_RETENTION_EVERY: "off",
      FLEET_SCRUB_EVERY: "off",
    };
    const services = await Promise.all(
      (["writer", "reader", "watchdog"] as const).map((role) => startService(role, env)),
    );
    await session.keep(
      Promise.resolve({ stop: async () => void (await Promise.all(services.map((one) => one.kill9()))) }),
    );
    const [writer, reader, watchdog] = services.map(({ pid }) => pid) as [number, number, number];
    const pids = { writer, reader, watchdog, nats_server: nats.pid };
    const commit = await commits(session, nats.url, pids);
    const heartbeat = await heartbeats(session, nats.url, pids);
    return {
      machine: { cpu, cores, node, nats_server, busy_percent },
      commit: { writer: commit.writer, reader: commit.reader, nats_server: commit.nats_server },
      heartbeat: {
        watchdog: heartbeat.watchdog,
        reader: heartbeat.reader,
        nats_server: heartbeat.nats_server,
      },
    };
  } finally {
    await session.close();
  }
}

async function commits(session: Session, url: string, pids: Pids): Promise<Record<keyof Pids, number>> {
  session.log("sizing: commits");
  const agents = session.program<AgentsJobs>("agents");
  await agents.run("connect", { url, agents: WRITERS });
  await agents.run("sustained", { warmUpSeconds: 0, seconds: WARM_UP_S });
  await agents.run("settle", {});
  const used = begin(pids);
  const { committed } = await agents.run("sustained", { warmUpSeconds: 0, seconds: WRITE_S });
  // Publishing and indexing are part of the cost of a commit.
  await agents.run("settle", {});
  const times = used(committed);
  await agents.run("disconnect", {});
  await agents.stop();
  return times;
}

async function heartbeats(session: Session, url: string, pids: Pids): Promise<Record<keyof Pids, number>> {
  session.log("sizing: heartbeats");
  const agents = session.program<FailingAgentsJobs>("failing-agents");
  await agents.run("connectAll", { url, accepts: false });
  await agents.run("takeTasks", { ...HEARTBEATS, writes: false });
  await agents.run("sendHeartbeats", { ...HEARTBEATS, seconds: HEARTBEAT_WARM_UP_S });
  const used = begin(pids);
  const sent = await agents.run("sendHeartbeats", { ...HEARTBEATS, seconds: HEARTBEAT_S });
  const times = used(sent);
  await agents.run("disconnect", {});
  await agents.stop();
  return times;
}
