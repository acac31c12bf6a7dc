/** Program: an agent that a runner starts for one task, in a separate process that may end in any way. */
import { AgentGroup } from "../agents/agent-group.ts";
import { connectAgent } from "../agents/client.ts";
import { withCalls } from "./calls.ts";
import { HEARTBEAT_MS, LAUNCHED } from "./task-kinds.ts";
import { WorkFailure, work } from "./worker.ts";

export interface LaunchedAgentArguments {
  readonly seed: number;
  readonly historyFolder: string;
  readonly killsUntil: number;
  /** The folder of the tree whose SDK it uses. Default: this tree. */
  readonly sdkTree?: string;
}

const KILL_SHARE = 0.03;
/** Longer than any task, so that no process survives an interrupted run. */
const LIFETIME_MS = 120_000;

const { seed, historyFolder, killsUntil, ...tree } = JSON.parse(process.argv[2]!) as LaunchedAgentArguments;
const { FLEET_URL: url = "", FLEET_AGENT_ID: agentId = "", FLEET_SPOOL_DIR: spoolFolder = "" } = process.env;
const { FLEET_NATS_CREDS: credsFile } = process.env;
setTimeout(() => process.exit(1), LIFETIME_MS).unref();
const group = new AgentGroup({
  ...{ name: agentId, incarnation: 0, seed: seed + process.pid, url, historyFolder, spoolFolder, ...tree },
});
const sdk = await group.sdk;
const { runAgent, classOfError } = sdk;
const client = await connectAgent({
  ...{ sdk, url, agentId, spoolFolder, log: group.log },
  ...(credsFile !== undefined && { credentials: { credsFile } }),
  recorded: (bus) => withCalls(group.recorder.recorded(bus), group),
});
const context = {
  ...{ agent: agentId, history: group.history, random: group.random },
  kills: {
    ...{ untilUs: killsUntil, share: KILL_SHARE, random: group.random },
    killAt: () => {
      process.kill(process.pid, "SIGKILL");
      return new Promise<never>(() => {});
    },
  },
  damage: () => {},
};
try {
  await runAgent({
    ...{ fleet: client, type: LAUNCHED, heartbeatMs: HEARTBEAT_MS, checkpoints: { items: 1 } },
    work: (run) => work(run, context),
    classify: (error) => (error instanceof WorkFailure ? error.class : classOfError(error)),
  });
} catch (error) {
  group.log.warn({ error }, "an agent ended with an error");
  process.exitCode = 1;
}
await group.stop([client]);
