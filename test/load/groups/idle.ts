// The footprint: what a fleet takes from its machine while nothing happens, with all its processes and with credentials and HTTP API.

import { setTimeout as sleep } from "node:timers/promises";
import { processorTime, processTree, residentBytes } from "../measure/cpu-time.ts";
import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { Session } from "../session.ts";

/** The fleet of `npm start`. */
const AS_STARTED = { FLEET_AUTH: "on", FLEET_GATEWAY_PORT: "0" };
/** Until the memory of the start is released, which takes a minute without work. */
const SETTLE_MS = 90_000;
const SECONDS = 60;
const MIB = 1024 * 1024;

export async function measureIdle(session: Session): Promise<Group> {
  session.log("idle: starting a fleet");
  const fleet = await session.fleet(session.folder(), AS_STARTED);
  await sleep(SETTLE_MS);
  const processes = processTree(fleet.pid);
  const seconds = session.seconds(SECONDS);
  session.log(`idle: measuring ${seconds} s`);
  const used = processes.map((pid) => processorTime(pid));
  await sleep(seconds * 1_000);
  const times = used.map((since) => since());
  const isKnown = times.length > 0 && !times.includes(null);
  const us = isKnown ? times.reduce<number>((sum, time) => sum + (time ?? 0), 0) : null;
  const bytes = residentBytes(processes);
  await fleet.stop();
  return {
    name: "idle",
    about: `a fleet without agents for ${seconds} s, all its processes together`,
    rows: [
      row("resident memory", bytes === null ? null : bytes / MIB, "MiB", TARGETS.idle_memory),
      row("processor time", us === null ? null : us / 10_000 / seconds, "% of a core", TARGETS.idle_cpu),
    ],
  };
}
