/** Program: an agent that a runner starts for one task, in a process of its own, which may end in any way. */
import { classOfError } from "../../../../shared/sdk/agent/failure.ts";
import { runAgent } from "../../../../shared/sdk/sdk.ts";
import { connectAgent } from "../agents/client.ts";
import { Crew } from "../agents/crew.ts";
import { withCalls } from "./calls.ts";
import { HEARTBEAT_MS, HIRED } from "./kinds.ts";
import { Trouble, work } from "./worker.ts";

export interface HiredArguments {
  readonly seed: number;
  readonly historyFolder: string;
  readonly deathsUntil: number;
}

const DEATH_SHARE = 0.03;
/** Longer than any task takes: nothing is left behind when the whole run is broken off. */
const LIFE_MS = 120_000;

const { seed, historyFolder, deathsUntil } = JSON.parse(process.argv[2]!) as HiredArguments;
const { FLEET_URL: url = "", FLEET_AGENT_ID: agentId = "", FLEET_SPOOL_DIR: spoolFolder = "" } = process.env;
setTimeout(() => process.exit(1), LIFE_MS).unref();
const crew = new Crew({
  ...{ name: agentId, incarnation: 0, seed: seed + process.pid, url, historyFolder, spoolFolder },
});
const client = await connectAgent({
  ...{ url, agentId, spoolFolder, log: crew.log },
  recorded: (bus) => withCalls(crew.recorder.recorded(bus), crew),
});
const bench = {
  ...{ agent: agentId, history: crew.history, random: crew.random },
  deaths: { untilUs: deathsUntil, share: DEATH_SHARE, random: crew.random },
  die: () => {
    process.kill(process.pid, "SIGKILL");
    return new Promise<never>(() => {});
  },
  damage: () => {},
};
try {
  await runAgent({
    ...{ fleet: client, type: HIRED, heartbeatMs: HEARTBEAT_MS, checkpoints: { items: 1 } },
    work: (run) => work(run, bench),
    classify: (error) => (error instanceof Trouble ? error.class : classOfError(error)),
  });
} catch (error) {
  crew.log.warn({ error }, "an agent came to an end");
  process.exitCode = 1;
}
await crew.leave([client]);
