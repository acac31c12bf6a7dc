// The HTTP API: reads through the gateway while agents write on the bus.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { AgentsJobs } from "../programs/agents.ts";
import type { HttpReadersJobs } from "../programs/http-readers.ts";
import type { Session } from "../session.ts";
import { createWorkload } from "../workload.ts";

const WRITERS = 100;
const READERS = 32;

export async function measureGateway(session: Session): Promise<Group> {
  session.log("gateway: starting a fleet");
  const home = session.folder();
  const fleet = await session.fleet(home, { FLEET_GATEWAY_PORT: "-1", FLEET_GATEWAY_RATE: "1000000" });
  const { gatewayUrl: url } = JSON.parse(readFileSync(join(home, "addresses.json"), "utf8")) as {
    gatewayUrl: string;
  };
  const key = readFileSync(join(home, "client", "api-key"), "utf8").trim();
  const agents = session.program<AgentsJobs>("agents");
  const readers = session.program<HttpReadersJobs>("http-readers");
  await agents.run("connect", { url: fleet.busUrl, agents: WRITERS });
  await agents.run("steady", { seconds: 3, getsPerSecond: 0 });
  await agents.run("settle", {});
  const workload = createWorkload(2);
  const paths = Array.from({ length: WRITERS }, (_, i) => `/tasks/${workload.taskId(i)}`);
  const seconds = session.seconds(8);
  const load = { url, key, paths, readers: READERS, seconds };
  session.log("gateway: reads on the bus, over HTTP, then over HTTP beside writes");
  const read = { op: "task", tasks: WRITERS, perTask: 1, concurrency: READERS, seconds } as const;
  const onBus = await agents.run("reads", read);
  const alone = await readers.run("read", load);
  const [beside, written] = await Promise.all([
    readers.run("read", load),
    agents.run("steady", { seconds: seconds + 1, getsPerSecond: 0 }),
  ]);
  await agents.stop();
  await readers.stop();
  await fleet.stop();
  return {
    name: "gateway",
    about: `${READERS} readers of tasks over HTTP; then beside ${WRITERS} agents that write once a second`,
    rows: [
      row("the same reads on the bus, alone", onBus.count / seconds, "/s"),
      row("the same reads on the bus, alone, p50", onBus.p50, "ms"),
      row("reads over HTTP, alone", alone.perSecond, "/s"),
      row("reads over HTTP, alone, p50", alone.latency.p50, "ms"),
      row("reads over HTTP beside writes", beside.perSecond, "/s", TARGETS.http_reads),
      row("reads over HTTP beside writes, p50", beside.latency.p50, "ms"),
      row("reads over HTTP beside writes, p99", beside.latency.p99, "ms"),
      row("writes on the bus meanwhile, p99", written.write.p99, "ms"),
      row("failed", onBus.failed + alone.failed + beside.failed + written.failed, "requests", TARGETS.failed),
    ],
  };
}
