/** Program: operators, who act while retention removes checkpoints too. Their calls are recorded as those of the agents. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { AgentGroup, type AgentGroupArguments } from "../agents/agent-group.ts";
import { withCalls } from "../workers/calls.ts";
import { Operator } from "./operator.ts";

const OPERATORS = 2;
const PAUSE_MS = 150;

const group = new AgentGroup(JSON.parse(process.argv[2]!) as AgentGroupArguments);

async function runOne(index: number): Promise<FleetClient> {
  const { client } = await group.connect(index, (bus) => withCalls(bus, group));
  const operator = new Operator(client, group.random);
  while (!group.stopping.aborted) {
    try {
      await operator.act();
    } catch (error) {
      // Most checkpoints are needed, and the fleet is often unavailable. The history has the outcome.
      group.log.debug({ error }, "an operator's act was refused");
    }
    await sleep(group.random() * PAUSE_MS);
  }
  return client;
}

process.send?.({ ready: true });
await group.stop(await Promise.all(Array.from({ length: OPERATORS }, (_, index) => runOne(index))));
