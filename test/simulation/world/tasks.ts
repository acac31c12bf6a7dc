/** Starts the tasks of workers, from a program outside all faults of programs. */
import { setTimeout as sleep } from "node:timers/promises";
import { withCalls } from "../../fleet/faults/workers/calls.ts";
import { type TaskKind, taskName, WORKER } from "../../fleet/faults/workers/task-kinds.ts";
import { startTask } from "../../fleet/faults/workers/task-start.ts";
import { SimulatedAgents } from "./agents.ts";
import type { Story } from "./story.ts";
import type { World } from "./world-parts.ts";

const KINDS: readonly TaskKind[] = ["normal", "normal", "normal", "loop", "fatal", "inventive", "junk"];
const PAUSE_MS = 2_000;

export async function startTasks({ host, started }: World, { tasks }: Story): Promise<void> {
  if (tasks === 0) return;
  const group = new SimulatedAgents(host, "dispatcher");
  const { client } = await group.connect("dispatcher", (bus) => withCalls(bus, group));
  for (let n = 0; n < tasks; n += 1) {
    const name = taskName(KINDS[Math.floor(Math.random() * KINDS.length)]!, n);
    started.add(name);
    // A task that may not have started is judged by its commands alone.
    await startTask(client, name, WORKER).catch(() => {});
    await sleep(Math.random() * PAUSE_MS);
  }
  await group.stop(Promise.resolve());
}
