/** The program outside all faults that starts the tasks of workers, damages stored checkpoints and reads these, and has a healthy agent. */
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetClient } from "../../../shared/sdk/client/client.ts";
import type { AgentContext } from "../../fleet/faults/agents/agent.ts";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { readDamaged } from "../../fleet/faults/workers/damage-reads.ts";
import { workHealthily } from "../../fleet/faults/workers/healthy-agent.ts";
import { LAUNCHED, type TaskKind, taskName, WORKER } from "../../fleet/faults/workers/task-kinds.ts";
import { startTask } from "../../fleet/faults/workers/task-start.ts";
import type { Story } from "../story/story.ts";
import { SimulatedAgents } from "./agents.ts";
import { damageCheckpoint } from "./damage.ts";
import type { WorldHost } from "./host.ts";

const KINDS: readonly TaskKind[] = ["normal", "normal", "normal", "loop", "fatal", "inventive", "junk"];
/** Their agents request damage. */
const DAMAGED_KINDS: readonly TaskKind[] = ["corrupt", "broken"];
const PAUSE_MS = 2_000;

type StartedTasks = Pick<Story, "tasks" | "launched" | "damages">;

export class Dispatcher {
  readonly #host: WorldHost;
  readonly #group: SimulatedAgents;
  readonly #starter: FleetClient;
  readonly #reader: AgentContext;
  readonly #working: Promise<void>[] = [];

  private constructor(
    host: WorldHost,
    group: SimulatedAgents,
    by: { readonly starter: FleetClient; readonly reader: AgentContext },
  ) {
    this.#host = host;
    this.#group = group;
    this.#starter = by.starter;
    this.#reader = by.reader;
  }

  static async open(host: WorldHost): Promise<Dispatcher> {
    const group = new SimulatedAgents(host, "dispatcher", { hasSpools: false });
    const { client: starter } = await group.connect("dispatcher", (bus) => withCalls(bus, group));
    return new Dispatcher(host, group, { starter, reader: await group.connect("dispatcher-reader") });
  }

  /** An agent works until the stop. */
  async startHealthy(): Promise<void> {
    const group = this.#group;
    const { client } = await group.connect("dispatcher-healthy", (bus) => withCalls(bus, group));
    this.#working.push(workHealthily(client, { index: 0, group }));
  }

  /** `started` gets the names of the tasks. */
  async start({ tasks, launched, damages }: StartedTasks, started: Set<string>): Promise<void> {
    for (let n = 0; n < tasks + launched; n += 1) {
      const isLaunched = n >= tasks;
      const kinds = damages && !isLaunched ? DAMAGED_KINDS : KINDS;
      const name = taskName(kinds[Math.floor(Math.random() * kinds.length)]!, n);
      started.add(name);
      // A task that may not have started is judged by its commands alone.
      await startTask(this.#starter, name, isLaunched ? LAUNCHED : WORKER).catch(() => {});
      await sleep(Math.random() * PAUSE_MS);
    }
  }

  /** Resolves when the checkpoint is damaged. It is read at once and later. */
  async damage(task: string, id: string): Promise<void> {
    if (await damageCheckpoint(this.#host, task, id)) this.#working.push(readDamaged(this.#reader, task, id));
  }

  /** No worker works any more. */
  async stop(): Promise<void> {
    await this.#group.stop(Promise.all(this.#working));
  }
}
