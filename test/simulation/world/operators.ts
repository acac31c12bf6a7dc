/** An operator, who places and releases holds and removes checkpoints. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { Operator } from "../../fleet/faults/operators/operator.ts";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { SimulatedAgents } from "./agents.ts";
import type { WorldHost } from "./host.ts";

const PAUSE_MS = 500;

export interface OperatorOptions {
  readonly name: string;
  /** The acts of all incarnations together that are still to do. */
  readonly left: { acts: number };
}

export async function startOperator(
  host: WorldHost,
  incarnation: string,
  { name, left }: OperatorOptions,
): Promise<Stop> {
  const group = new SimulatedAgents(host, incarnation);
  const { client } = await group.connect(name, (bus) => withCalls(bus, group));
  const operator = new Operator(client, Math.random);
  const working = (async () => {
    while (left.acts > 0 && !group.stopping.aborted) {
      left.acts -= 1;
      // Most checkpoints are needed, and the fleet is often unavailable. The history has the outcome.
      await operator.act().catch(() => {});
      await sleep(Math.random() * PAUSE_MS);
    }
  })();
  return () => group.stop(working);
}
